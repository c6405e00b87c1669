/* Light and dark: as the system has it, unless the person chose. */

import { $ } from "./dom.js";

const STORE = "ifonly.theme";

/** `onChange` is called when the colours have changed. */
export function themes(onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem(STORE);
  const isDark = () => (chosen() ? chosen() === "dark" : system.matches);
  const dress = () => {
    document.documentElement.style.colorScheme = chosen() ?? "";
    $("theme").textContent = isDark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    onChange();
  };
  $("theme").addEventListener("click", () => {
    localStorage.setItem(STORE, isDark() ? "light" : "dark");
    dress();
  });
  system.addEventListener("change", dress);
  dress();
}
