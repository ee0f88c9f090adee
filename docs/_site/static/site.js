// What scrolls sideways can be reached by keyboard.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".table-wrapper, div.highlight pre")) {
    box.tabIndex = 0;
    if (box.classList.contains("table-wrapper")) { box.setAttribute("role", "region"); box.setAttribute("aria-label", "Table"); }
  }
});
