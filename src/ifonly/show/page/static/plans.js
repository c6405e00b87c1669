/* The page of several plans: all of it stands in the file; only the colours can be chosen. */

import { themes } from "./web/theme.js";

themes(() => {});
