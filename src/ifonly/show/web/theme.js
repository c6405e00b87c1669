/* Light and dark: as the system has it, unless the person chose. */

import { $ } from "./dom.js";

const THEME = "ifonly.theme";

/** `onChange` is called when the colours have changed; `store` keeps the choice, where it is to last. */
export function themes(onChange, store = null) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = store?.getItem(THEME) ?? "";
  const isDark = () => (chosen ? chosen === "dark" : system.matches);
  const dress = () => {
    document.documentElement.style.colorScheme = chosen;
    $("theme").textContent = isDark() ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    onChange();
  };
  $("theme").addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    store?.setItem(THEME, chosen);
    dress();
  });
  system.addEventListener("change", dress);
  dress();
}
