// Sets the formulas of a page; what KaTeX does not understand stays as it was written.
if (window.katex) {
  document.querySelectorAll(".math").forEach((place) => {
    const options = { displayMode: place.tagName === "DIV", throwOnError: false, macros: { "·": "\\cdot" } };
    katex.render(place.textContent, place, options);
  });
}
// What scrolls can be reached with the keyboard, and headings of the contents say their level.
document.querySelectorAll("pre, article p:has(> img), div.math").forEach((place) => {
  if (place.scrollWidth > place.clientWidth) place.tabIndex = 0;
});
document.querySelectorAll("[role=heading]:not([aria-level])").forEach((head) => head.setAttribute("aria-level", "2"));
