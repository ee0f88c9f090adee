// What the theme leaves unsaid to screen readers and keyboards.
document.addEventListener("DOMContentLoaded", () => {
  for (const title of document.querySelectorAll(".sidebar-tree .caption[role=heading]")) title.setAttribute("aria-level", "2");
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
  document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
  document.querySelectorAll(".table-wrapper").forEach((box, number) => {  // it scrolls sideways, also by keyboard
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Table ${number + 1}`);
  });
  for (const block of document.querySelectorAll("div.highlight pre")) block.tabIndex = 0;
  if (document.getElementById("search-results") && !document.querySelector("h1")) {
    const title = document.createElement("h1");
    title.textContent = "Search";
    document.querySelector("article").prepend(title);
  }
});
