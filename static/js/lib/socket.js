// A socket that comes back by itself. It only hurries the page along: whatever it
// misses is asked for again when it opens, on focus and every few seconds.

const FIRST_DELAY = 300;
const LONGEST_DELAY = 10000;
const SILENCE = 3000;

export class Live {
  constructor(path, { heard, changed, question, woke }) {
    this.url = new URL(path, location.href);
    this.url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.heard = heard;
    this.changed = changed;
    this.question = question;
    this.woke = woke;
    this.delay = FIRST_DELAY;
    this.failures = 0;
    this.ended = false;
    this.connect();
    for (const name of ["focus", "online", "pageshow"]) addEventListener(name, () => this.wake());
    addEventListener("offline", () => this.drop());
    document.addEventListener("visibilitychange", () => document.hidden || this.wake());
  }

  get open() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.again);
    if (this.ended) return;
    const socket = new WebSocket(this.url);
    this.socket = socket;
    const limit = setTimeout(() => socket.readyState === WebSocket.CONNECTING && this.drop(), SILENCE);
    socket.onopen = () => {
      clearTimeout(limit);
      this.delay = FIRST_DELAY;
      this.failures = 0;
      this.changed(true);
      this.ask();
    };
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      clearTimeout(this.silence);
      const message = JSON.parse(event.data);
      if (message.type === "receipt") this.tell({ read: message.sent });
      else this.heard(message);
    };
    socket.onclose = (event) => {
      clearTimeout(limit);
      if (socket === this.socket) this.closed(event.code);
    };
  }

  closed(code) {
    this.socket = null;
    clearTimeout(this.silence);
    this.failures += 1;
    this.changed(false, code);
    if (code === 4403) {
      this.ended = true;
      return;
    }
    this.again = setTimeout(() => this.connect(), this.delay * (0.5 + Math.random()));
    this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
  }

  // A socket that swallows everything never says so: give it up.
  drop() {
    const socket = this.socket;
    if (!socket) return;
    socket.onclose = null;
    socket.close();
    this.closed(0);
  }

  wake() {
    if (this.ended) return;
    this.woke();
    if (this.open) this.ask();
    else if (!this.socket) {
      this.delay = FIRST_DELAY;
      this.connect();
    }
  }

  // Ask what is new; an answer of any kind must come, or the socket is dead.
  ask() {
    if (!this.open) return;
    this.tell(this.question());
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.drop(), SILENCE);
  }

  tell(message) {
    if (this.open) this.socket.send(JSON.stringify(message));
  }
}
