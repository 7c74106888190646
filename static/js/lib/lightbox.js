// An image at full size, over the page. Without this script its link opens it.

import { $, $$ } from "./dom.js";

const box = $("#lightbox");
let all = [];
let at = 0;

function show(index) {
  at = (index + all.length) % all.length;
  const link = all[at];
  const name = $("img", link).alt;
  const picture = $("img", box);
  picture.src = link.href;
  picture.alt = name;
  $("figcaption bdi", box).textContent = name;
  $("[data-open]", box).href = link.href;
  for (const button of $$("[data-step]", box)) button.hidden = all.length < 2;
}

function open(link) {
  all = $$("a[data-lightbox]", link.closest(".entries, .composer") ?? document);
  show(all.indexOf(link));
  box.showModal();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-lightbox]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !box) return;
  event.preventDefault();
  open(link);
});

box?.addEventListener("click", (event) => {
  const step = event.target.closest("[data-step]");
  if (step) show(at + Number(step.dataset.step));
  else if (event.target === box) box.close();
});

box?.addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") show(at - 1);
  if (event.key === "ArrowRight") show(at + 1);
});
