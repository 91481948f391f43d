"use strict";
(() => {
  const root = document.documentElement, body = document.body, tip = document.getElementById("tip");

  // Theme: the system's choice until the reader makes one, which lasts as long as the page.
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

  // Which synthetic table the pictures show.
  const picks = [...document.querySelectorAll("[data-pick]")];
  const show = (which) => {
    body.dataset.show = which;
    for (const part of document.querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== which;
    for (const button of picks) button.setAttribute("aria-pressed", String(button.dataset.pick === which));
  };
  for (const button of picks) button.addEventListener("click", () => show(button.dataset.pick));
  if (picks.length) show("0");

  // Tooltips: one box for pointer, touch and arrow keys.
  let hot = null;
  const place = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect(), w = root.clientWidth;
    tip.style.left = Math.max(6, Math.min(x + 14, w - box.width - 6)) + "px";
    tip.style.top = (y - box.height - 12 < 4 ? y + 18 : y - box.height - 12) + "px";
  };
  const leave = () => {
    tip.hidden = true;
    if (hot) hot.classList.remove("hot");
    hot = null;
    for (const band of document.querySelectorAll(".band")) band.remove();
  };
  const mark = (element, x, y) => {
    leave();
    hot = element;
    element.classList.add("hot");
    place(element.dataset.tip, x, y);
  };
  const step = (chart, index, y) => {
    const texts = chart.dataset.tips.split("|"), wide = chart.viewBox.baseVal.width, one = wide / texts.length;
    leave();
    const band = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of [["class", "band"], ["x", index * one], ["y", 0], ["width", one], ["height", 100]]) band.setAttribute(key, value);
    chart.appendChild(band);
    const box = chart.getBoundingClientRect();
    place(texts[index], box.left + (index + 0.5) / texts.length * box.width, y ?? box.top);
  };
  document.addEventListener("pointermove", (event) => {
    const over = event.target.closest("[data-tip],[data-tips]");
    if (!over) { if (!tip.hidden) leave(); return; }
    if (over.dataset.tip) { if (over !== hot) mark(over, event.clientX, event.clientY); else place(over.dataset.tip, event.clientX, event.clientY); return; }
    const box = over.getBoundingClientRect(), n = over.dataset.tips.split("|").length;
    step(over, Math.max(0, Math.min(n - 1, Math.floor((event.clientX - box.left) / box.width * n))), event.clientY);
  });
  document.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const chart = document.activeElement && document.activeElement.closest("svg[tabindex]");
    if (event.key === "Escape") leave();
    if (!move || !chart) return;
    event.preventDefault();
    const marks = chart.dataset.tips ? null : [...chart.querySelectorAll("[data-tip]")];
    const n = marks ? marks.length : chart.dataset.tips.split("|").length;
    if (!n) return;
    chart.dataset.at = ((Number(chart.dataset.at ?? (move > 0 ? -1 : 0)) + move) % n + n) % n;
    if (!marks) return step(chart, Number(chart.dataset.at));
    const box = marks[chart.dataset.at].getBoundingClientRect();
    mark(marks[chart.dataset.at], box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", leave);
  addEventListener("scroll", leave, { passive: true });
  root.dataset.ready = "1";
})();
