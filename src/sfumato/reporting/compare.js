(function () {
  "use strict";
  var facts = JSON.parse(document.getElementById("facts").textContent);
  var slider = document.getElementById("epsilon"), said = document.getElementById("said"), body = document.getElementById("told");
  var charts = Array.prototype.slice.call(document.querySelectorAll(".panel svg"));
  var first = Math.log(facts.epsilons[0]), last = Math.log(facts.epsilons[facts.epsilons.length - 1]);

  function place(epsilon) {
    return facts.left + (last > first ? (Math.log(epsilon) - first) / (last - first) : 0) * (facts.right - facts.left);
  }
  var cursors = charts.map(function (svg) {
    var line = document.createElementNS(svg.namespaceURI, "line");
    line.setAttribute("class", "cursor");
    line.setAttribute("y1", 30);
    line.setAttribute("y2", facts.bottom);
    svg.appendChild(line);
    return line;
  });
  function show() {
    var i = +slider.value, epsilon = facts.epsilons[i], text = String(+epsilon.toPrecision(3));
    said.textContent = text;
    slider.setAttribute("aria-valuetext", "\u03b5 = " + text);
    cursors.forEach(function (line) {
      line.setAttribute("x1", place(epsilon));
      line.setAttribute("x2", place(epsilon));
    });
    facts.methods.forEach(function (name, k) {
      body.rows[k].cells[1].textContent = facts.told[i][k][0];
      body.rows[k].cells[2].textContent = facts.told[i][k][1];
    });
  }
  function pointed(event) {
    var box = event.currentTarget.getBoundingClientRect(), x = (event.clientX - box.left) * facts.width / box.width, best = 0;
    facts.epsilons.forEach(function (epsilon, i) {
      if (Math.abs(place(epsilon) - x) < Math.abs(place(facts.epsilons[best]) - x)) best = i;
    });
    slider.value = best;
    show();
  }
  slider.addEventListener("input", show);
  charts.forEach(function (svg) { svg.addEventListener("pointermove", pointed); svg.addEventListener("click", pointed); });
  document.getElementById("reading").hidden = false;
  show();
})();
