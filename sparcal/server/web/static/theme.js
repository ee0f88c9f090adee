// Runs before the page is painted, so that nobody sees the wrong theme flash by.
"use strict";
(() => {
  const chosen = localStorage.getItem("sparcal-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
