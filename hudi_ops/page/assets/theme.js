// Follow the theme that Airflow keeps in localStorage.theme. Browsers run this before they draw the page, so that it does not flash.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    let wanted = "system";
    try { wanted = localStorage.getItem("theme") || "system"; } catch { /* storage may be blocked: the system's theme is right */ }
    document.documentElement.dataset.theme = ["light", "dark"].includes(wanted) ? wanted : dark.matches ? "dark" : "light";
  };
  follow();
  addEventListener("storage", (event) => { if (event.key === "theme" || event.key === null) follow(); });
  dark.addEventListener("change", follow);
})();
