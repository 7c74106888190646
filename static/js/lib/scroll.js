// Stays where the reader is. At the end it follows; elsewhere it counts what is new.

import { say } from "./dom.js";

const NEAR = 64;

export class Reader {
  constructor(box, button, { atEnd }) {
    this.box = box;
    this.button = button;
    this.following = true;
    this.unseen = 0;
    this.atEnd = atEnd;
    box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    button.addEventListener("click", () => this.jump());
    new ResizeObserver(() => this.following && this.toEnd()).observe(box);
  }

  get near() {
    return this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < NEAR;
  }

  scrolled() {
    this.following = this.near;
    if (this.following) {
      this.unseen = 0;
      this.atEnd();
    }
    this.show();
  }

  toEnd() {
    this.box.scrollTop = this.box.scrollHeight;
  }

  jump() {
    this.following = true;
    this.unseen = 0;
    this.toEnd();
    this.show();
    this.atEnd();
  }

  // Change the page below the reader: follow, or leave the reader in peace.
  below(change, added = 0) {
    change();
    if (this.following) this.toEnd();
    else this.unseen += added;
    this.show();
  }

  // Change the page above the reader without moving what is read.
  above(change) {
    const before = this.box.scrollHeight - this.box.scrollTop;
    change();
    this.box.scrollTop = this.box.scrollHeight - before;
  }

  show() {
    this.button.hidden = this.following;
    const key = this.unseen === 0 ? "jump" : this.unseen === 1 ? "jumpOne" : "jumpMany";
    this.button.querySelector("span").textContent = say(key, { count: this.unseen });
  }
}
