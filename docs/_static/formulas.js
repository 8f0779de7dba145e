// Sets the formulas of a page; what KaTeX does not understand stays as it was written.
document.querySelectorAll(".math").forEach((place) => {
  const text = place.textContent;
  katex.render(text, place, { displayMode: place.tagName === "DIV", throwOnError: false });
});
