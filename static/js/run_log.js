// The live end of a run's log. The page is rendered from rows; the socket only says
// how far the log has come. What is shown is always a stretch without a gap: lines are
// fetched after the cursor, in order, one request at a time, and each seq once.

const MOST_LINES = 2000;
const log = document.querySelector("[data-run-log]");

function follow(log) {
  const status = document.getElementById("log-status");
  const jump = document.getElementById("log-jump");
  const head = document.getElementById("run-head");
  let cursor = Number(log.dataset.cursor);
  let wanted = cursor;
  let fetching = false;
  let refused = false;
  let fresh = 0;
  let delay = 500;
  let socket = null;
  let timer = null;

  const say = (name) => {
    status.textContent = status.dataset[name];
    status.dataset.state = name;
  };

  const sayConnected = () => say(head.querySelector("[data-ended]") ? "ended" : "live");

  // What scrolls is the column, or on a narrow screen perhaps the page.
  const main = log.closest("main");
  const atEnd = () => {
    const fixed = getComputedStyle(main).overflowY === "visible";
    const page = fixed ? document.scrollingElement : main;
    return page.scrollHeight - page.scrollTop - page.clientHeight < 80;
  };

  const toEnd = () => {
    fresh = 0;
    jump.hidden = true;
    status.scrollIntoView({ block: "end" });
  };

  function insert(part) {
    let added = 0;
    for (const section of part.querySelectorAll("section.log-round")) {
      for (const line of section.querySelectorAll("li[data-seq]")) {
        if (document.getElementById(line.id)) line.remove();
        else added += 1;
      }
      const lines = section.querySelector("ol");
      if (!lines.children.length) continue;
      const last = log.lastElementChild;
      if (last && last.dataset.round === section.dataset.round) {
        last.querySelector("ol").append(...lines.children);
      } else {
        log.append(section);
      }
    }
    return added;
  }

  // A log that is watched for hours must not grow for hours.
  function trim() {
    const lines = log.querySelectorAll("li[data-seq]");
    for (let at = 0; at < lines.length - MOST_LINES; at += 1) {
      const section = lines[at].closest("section");
      lines[at].remove();
      if (!section.querySelector("li")) section.remove();
    }
    const first = log.querySelector("li[data-seq]");
    const earlier = document.getElementById("log-earlier");
    if (!first || !earlier) return;
    const link = new URL(earlier.href);
    link.searchParams.set("before", first.dataset.seq);
    earlier.href = link.href;
  }

  async function fetchOnce() {
    const address = new URL(log.dataset.records, location.href);
    address.searchParams.set("after", String(cursor));
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (answer.status === 404 || answer.status === 403 || answer.redirected) {
      refused = true;
      say("refused");
      return false;
    }
    if (!answer.ok) throw new Error(`The log answered ${answer.status}.`);
    const part = document.createElement("template");
    part.innerHTML = await answer.text();
    const follows = atEnd();
    const figures = part.content.querySelector("template[data-part=head]");
    if (figures) {
      head.replaceChildren(figures.content);
      if (["live", "ended"].includes(status.dataset.state)) sayConnected();
    }
    const added = insert(part.content);
    cursor = Number(answer.headers.get("X-Log-Cursor"));
    if (added) show(added, follows);
    return answer.headers.get("X-Log-More") === "1";
  }

  function show(added, follows) {
    document.getElementById("log-nothing")?.remove();
    if (follows) {
      trim();
      toEnd();
      return;
    }
    fresh += added;
    jump.textContent =
      fresh === 1 ? jump.dataset.one : jump.dataset.many.replace("{count}", fresh);
    jump.hidden = false;
  }

  async function catchUp() {
    if (fetching || refused) return;
    fetching = true;
    try {
      let more = true;
      while (more && !refused) more = (await fetchOnce()) || wanted > cursor;
      delay = 500;
    } catch {
      // What the page lacks is asked for again when the socket is back.
      socket?.close();
    } finally {
      fetching = false;
    }
  }

  function hear(text) {
    const message = JSON.parse(text);
    if (message.type === "receipt") {
      socket.send(JSON.stringify({ read: message.sent }));
      return;
    }
    if (message.type === "sync") {
      sayConnected();
      wanted = Math.max(wanted, message.head);
      if (message.head > cursor) catchUp();
    } else if (message.type === "record.appended") {
      wanted = Math.max(wanted, message.seq);
      if (message.seq > cursor) catchUp();
    } else if (message.type === "resync") {
      catchUp();
    }
  }

  function connect() {
    clearTimeout(timer);
    if (refused || (socket && socket.readyState <= WebSocket.OPEN)) return;
    const address = new URL(log.dataset.socket, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(address);
    // Asked only now that the socket is joined: nothing falls in between.
    socket.onopen = () => socket.send(JSON.stringify({ after: cursor }));
    socket.onmessage = (event) => hear(event.data);
    socket.onclose = () => {
      if (refused) return;
      say("away");
      clearTimeout(timer);
      timer = setTimeout(retry, delay * (0.7 + Math.random() * 0.6));
      delay = Math.min(delay * 2, 10000);
    };
  }

  // The request tells apart a server that is away from a right that is gone.
  function retry() {
    catchUp();
    connect();
  }

  const woken = () => {
    if (document.visibilityState !== "visible") return;
    if (socket?.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ after: cursor }));
    } else {
      connect();
    }
  };
  document.addEventListener("visibilitychange", woken);
  addEventListener("focus", woken);
  addEventListener("online", woken);
  const scrolled = () => {
    if (!atEnd()) return;
    fresh = 0;
    jump.hidden = true;
  };
  addEventListener("scroll", scrolled, { capture: true, passive: true });
  jump.addEventListener("click", toEnd);
  connect();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  event.preventDefault();
  document.getElementById("log-words")?.focus();
});

if (log) follow(log);
