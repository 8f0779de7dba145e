(function () {
  "use strict";
  var facts = JSON.parse(document.getElementById("facts").textContent);
  var $ = function (id) { return document.getElementById(id); };

  function percent(x) {
    var shown = 100 * x;
    if (shown === 0) return "0\u00a0%";
    if (shown < 0.01) return "<\u00a00.01\u00a0%";
    return shown.toFixed(shown < 1 ? 2 : 1) + "\u00a0%";
  }
  function error(x) {
    if (x === null) return "";
    if (x === "unlimited" || 1.96 * x >= 1) return "does not fix the shares of " + facts.useful;
    return "shares of " + facts.useful + " to \u00b1\u00a0" + String(+(196 * x).toPrecision(2)) + " points (95\u00a0%)";
  }

  function lines(curve, stop, prior) {
    var out = [[curve.change, curve.factors[stop]]];
    if (!curve.priors.length) out = [];
    else out.push(["Belief after a row, from " + percent(curve.priors[prior][1]), "at most " + curve.beliefs[prior][stop]]);
    out.push(["No mechanism keeps more than", curve.most[stop]]);
    curve.series.forEach(function (s) {
      if (s.bits[stop] === null) return;
      out.push(["Kept by " + s.label, percent(s.bits[stop] / curve.whole), error(s.errors[stop])]);
    });
    if (stop === curve.chosen && curve.kept !== null && !curve.own) {
      out.push(["Kept by this release", percent(curve.kept / curve.whole), error(curve.error)]);
    }
    return out;
  }

  function panel(curve) {
    var slider = $("epsilon"), prior = $("prior"), answers = $("answers"), said = $("said");
    var cursor = document.createElement("span");
    cursor.className = "cursor";
    $("chart").appendChild(cursor);
    function show() {
      var stop = +slider.value, text = String(+curve.stops[stop].toPrecision(4));
      said.textContent = text;
      slider.setAttribute("aria-valuetext", "\u03b5 = " + text + (stop === curve.chosen ? ", this release" : ""));
      cursor.style.left = (100 * curve.stops[stop] / curve.stops[curve.stops.length - 1]) + "%";
      answers.textContent = "";
      lines(curve, stop, prior ? +prior.value : 0).forEach(function (line) {
        var box = document.createElement("div"), name = document.createElement("dt"), value = document.createElement("dd");
        name.textContent = line[0];
        value.textContent = line[1];
        box.appendChild(name);
        box.appendChild(value);
        if (line[2]) {
          var more = document.createElement("dd");
          more.className = "more";
          more.textContent = line[2];
          box.appendChild(more);
        }
        answers.appendChild(box);
      });
    }
    slider.addEventListener("input", show);
    if (prior) prior.addEventListener("change", show);
    $("panel").hidden = false;
    show();
  }

  function told(h, y, x) {
    var rest = h.rest && y === h.rows.length - 1;
    var out = rest ? h.columns[x] + " becomes one of " + h.rows[y] + " with " : h.columns[x] + " becomes " + h.rows[y] + " with ";
    if (h.unary) out = "For " + h.columns[x] + " the bit of " + h.rows[y] + " is 1 with ";
    out += percent(h.values[y][x]) + ".";
    if (!h.seen.length || !h.shares.length || !h.seen[y]) return out;
    if (h.unary) return out + " The bit is 1 in " + percent(h.seen[y]) + " of all rows.";
    return out + " Of all rows, " + percent(h.seen[y]) + " become " + (rest ? "one of these" : "that") + ", and of these "
      + percent(h.values[y][x] * h.shares[x] / h.seen[y]) + " were " + h.columns[x] + ".";
  }

  function heat(h) {
    var region = $("heat"), say = $("cell"), body = region.querySelector("tbody"), at = null, row = 0, column = 0;
    function mark(y, x, move) {
      row = Math.max(0, Math.min(h.rows.length - 1, y));
      column = Math.max(0, Math.min(h.columns.length - 1, x));
      if (at) at.classList.remove("at");
      at = body.rows[row].cells[column + 1];
      at.classList.add("at");
      say.textContent = told(h, row, column);
      if (move) at.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    function pointed(event) {
      var cell = event.target.closest("td");
      if (cell && body.contains(cell)) mark(cell.parentNode.rowIndex - 1, cell.cellIndex - 1, false);
    }
    var steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    region.addEventListener("mouseover", pointed);
    region.addEventListener("click", pointed);
    region.addEventListener("keydown", function (event) {
      var step = steps[event.key];
      if (event.key === "Home") mark(row, 0, true);
      else if (event.key === "End") mark(row, h.columns.length - 1, true);
      else if (step) mark(at ? row + step[0] : row, at ? column + step[1] : column, true);
      else return;
      event.preventDefault();
    });
    say.hidden = false;
  }

  function oneAtATime(parts) {
    if (parts.length < 2) return;
    var choice = document.createElement("select"), label = document.createElement("label");
    label.textContent = "Column ";
    parts.forEach(function (part, i) { choice.add(new Option(part.dataset.name, i)); });
    function show() { parts.forEach(function (part, i) { part.hidden = i !== +choice.value; }); }
    choice.addEventListener("change", show);
    label.appendChild(choice);
    parts[0].parentNode.insertBefore(label, parts[0]);
    show();
    window.addEventListener("beforeprint", function () { parts.forEach(function (part) { part.hidden = false; }); });
    window.addEventListener("afterprint", show);
  }

  oneAtATime(Array.prototype.slice.call(document.querySelectorAll("#answer-analyst .column")));
  if (facts.curve) panel(facts.curve);
  if (facts.heat) heat(facts.heat);
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (d) { d.open = false; }); });
})();
