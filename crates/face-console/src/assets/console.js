// This script shows times in the time zone of the browser, asks before something is deleted, copies texts to the clipboard, uses passkeys, compares
// earlier rights with present rights, and uploads files. Everything else works without this script.
"use strict";

for (const time of document.querySelectorAll("time")) {
  const moment = new Date(time.dateTime);
  time.title = moment.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
  time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.ask ?? event.target.dataset.ask;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent).then(() => { button.textContent = "Copied"; });
});

// Passkeys: asks the authenticator, and sends its answer in the hidden fields of the form. The browser checks the host of the page.
const bytesOf = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const textOf = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const known = (element) => (element.dataset.ids ?? "").split(" ").filter(Boolean).map((id) => ({ type: "public-key", id: bytesOf(id) }));

function sendPasskey(form, fields) {
  for (const [name, buffer] of Object.entries(fields)) form.elements.namedItem(name).value = textOf(buffer);
  form.submit();
}

function passkeyProblem(form, error, words) {
  const shown = form.querySelector("[data-passkey-problem]");
  shown.textContent = words[error.name] ?? `The browser cannot use a passkey here: ${error.message}`;
  shown.hidden = false;
}

for (const button of document.querySelectorAll("button[data-passkey=use]")) {
  if (!window.PublicKeyCredential) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      const publicKey = { challenge: bytesOf(button.dataset.challenge), allowCredentials: known(button), userVerification: "preferred" };
      const { rawId, response } = await navigator.credentials.get({ publicKey });
      sendPasskey(button.form, { passkey: rawId, "client-data": response.clientDataJSON, "authenticator-data": response.authenticatorData, signature: response.signature });
    } catch (error) { passkeyProblem(button.form, error, { NotAllowedError: "The passkey was not used. Try again, or use a code." }); }
  });
}

for (const form of document.querySelectorAll("form[data-passkey=make]")) {
  form.addEventListener("submit", async (event) => {
    if (!window.PublicKeyCredential) return;
    event.preventDefault();
    try {
      const { user, name, challenge, algorithms } = form.dataset;
      const publicKey = {
        challenge: bytesOf(challenge),
        rp: { name: "Enfilade" },
        user: { id: bytesOf(user), name, displayName: name },
        pubKeyCredParams: algorithms.split(" ").map((alg) => ({ type: "public-key", alg: Number(alg) })),
        excludeCredentials: known(form),
        authenticatorSelection: { residentKey: "discouraged", userVerification: "preferred" },
        attestation: "none",
      };
      const { rawId, response } = await navigator.credentials.create({ publicKey });
      sendPasskey(form, { passkey: rawId, key: response.getPublicKey(), "client-data": response.clientDataJSON, "authenticator-data": response.getAuthenticatorData() });
    } catch (error) {
      passkeyProblem(form, error, { NotAllowedError: "No passkey was made. Try again.", InvalidStateError: "This device already has a passkey for this account." });
    }
  });
}

// Only one menu is open at a time. The key Escape closes the open menu.
document.addEventListener("toggle", (event) => {
  if (!event.target.open || !event.target.matches("details.more")) return;
  for (const other of document.querySelectorAll("details.more[open]")) if (other !== event.target) other.open = false;
}, true);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.more[open]")) { open.open = false; open.querySelector("summary").focus(); }
});

// Compares the rights in a CSV file that was downloaded earlier with the present rights.
const compare = document.getElementById("compare");
if (compare) {
  const ROWS_MAX = 1000;
  const [state, table, body] = ["[role=status]", "table", "tbody"].map((part) => compare.querySelector(part));
  compare.hidden = false;

  // The rights of each person on each path; null if the text is not a CSV file of this page.
  function rightsOf(text) {
    const rights = new Map();
    const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
    let row = [];
    if (!/^path,kind,who,rights\r?\n/.test(text) || !text.endsWith("\n")) return null;
    while (field.lastIndex < text.length) {
      const found = field.exec(text);
      if (!found) return null;
      row.push(found[1]?.replaceAll('""', '"') ?? found[2]);
      if (found[3] === ",") continue;
      if (row.length !== 4) return null;
      rights.set(`${row[2]}\n${row[0]}`, row);
      row = [];
    }
    rights.delete("who\npath");
    return row.length ? null : rights;
  }

  // Whether the file is of the path of the page: it contains this path, and no path outside of it.
  function isOfHere(rights) {
    const [own, paths] = [compare.dataset.path, [...rights.values()].map(([path]) => path)];
    const below = own.endsWith("/") ? own : `${own}/`;
    return paths.includes(own) && paths.every((path) => path === own || path.startsWith(below));
  }

  function show(then, now) {
    const changed = [...new Set([...then.keys(), ...now.keys()])].filter((key) => then.get(key)?.[3] !== now.get(key)?.[3]);
    body.replaceChildren(...changed.slice(0, ROWS_MAX).map((key) => {
      const row = document.createElement("tr");
      const [path, , who] = now.get(key) ?? then.get(key);
      row.append(...[who, path, then.get(key)?.[3] ?? "nothing", now.get(key)?.[3] ?? "nothing"].map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
    table.hidden = changed.length === 0;
    const cut = changed.length > ROWS_MAX ? `; the first ${ROWS_MAX} are shown` : "";
    const count = changed.length === 1 ? "1 right is" : `${changed.length} rights are`;
    state.textContent = changed.length ? `${count} different${cut}.` : "All rights are the same.";
  }

  const earlier = document.getElementById("earlier");
  earlier.addEventListener("change", async () => {
    const [file] = earlier.files;
    if (!file) return;
    table.hidden = true;
    earlier.disabled = true;
    state.textContent = "Reading the present rights …";
    try {
      const then = rightsOf(await file.text());
      if (!then) {
        state.textContent = "This is not a CSV file of this page, or its end is missing.";
      } else if (!isOfHere(then)) {
        state.textContent = "This CSV file is of another folder.";
      } else {
        const answer = await fetch(compare.dataset.now);
        const now = answer.ok ? rightsOf(await answer.text()) : null;
        if (now) show(then, now);
        else state.textContent = "The present rights cannot be read. Load the page again.";
      }
    } catch { state.textContent = "The comparison failed: the answer of the server ended early, or the file cannot be read. Choose the file again."; }
    earlier.value = "";
    earlier.disabled = false;
  });
}

// Adds a line about an upload to the list of uploads. The script of drop boxes also uses this function. Names are set as text, and the browser does
// not parse them as HTML.
function uploadLine(list, name) {
  const item = document.createElement("li");
  const label = document.createElement("span");
  label.textContent = name;
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.value = 0;
  bar.setAttribute("aria-label", name);
  const state = document.createElement("span");
  state.className = "small weak";
  item.append(label, bar, state);
  list.hidden = false;
  list.append(item);
  return { item, bar, state };
}

// Uploads the files and whole folders that the user dropped or chose, one after the other. An existing file is replaced only if the user confirms
// this.
const picker = document.getElementById("upload");
if (picker) {
  const here = picker.dataset.upload;
  const csrf = document.getElementById("content").dataset.csrf;
  const list = document.getElementById("uploads");

  const PIECE = 8 << 20;
  const WHOLE_MAX = 2 * PIECE;
  const TRIES_MAX = 8;
  const MAY_RETRY = [0, 408, 503];
  const WORDS = {
    403: "you may not write here",
    405: "a folder has this name",
    409: "something else has this name",
    412: "a file with this name exists",
    423: "another program has locked it",
    507: "no room is left; empty your trash, or ask for more room",
  };
  const say = (status, text) => WORDS[status] ?? (text.trim() || `the server says ${status}`);

  function ask(method, url, body, isNew, sent) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.upload.onprogress = (event) => sent(event.loaded);
      request.onload = () => resolve({ status: request.status, text: request.responseText });
      request.onerror = () => resolve({ status: 0, text: "the connection was lost" });
      request.open(method, url);
      request.setRequestHeader("X-Csrf-Token", csrf);
      if (isNew) request.setRequestHeader("If-None-Match", "*");
      request.send(body);
    });
  }

  function put(url, file, isNew, shown) {
    if (file.size > WHOLE_MAX) return putInPieces(url, file, isNew, shown);
    return ask("PUT", url, file, isNew, (bytes) => { shown.bar.value = bytes / Math.max(file.size, 1); });
  }

  // Sends a large file in pieces. If the connection breaks, the script continues the upload. After a reload of the page, the upload continues if the
  // user chooses the same file again.
  async function putInPieces(url, file, isNew, shown) {
    const to = url.replace("/console/files/", "/console/uploads/");
    let failed = { status: 0, text: "the connection was lost; choose the same file again, and the upload goes on" };
    for (let failures = 0; failures < TRIES_MAX; failures += 1) {
      if (failures > 0) {
        shown.state.textContent = "waiting for the connection";
        await new Promise((resolve) => { setTimeout(resolve, 500 * 2 ** failures); });
      }
      failed = await ask("PUT", `${to}?bytes=${file.size}&modified=${file.lastModified}`, null, isNew, () => {});
      if (MAY_RETRY.includes(failed.status)) continue;
      if (failed.status !== 200) return failed;
      const [name, received] = failed.text.split(" ");
      let at = Number(received);
      for (;;) {
        shown.state.textContent = "";
        const piece = file.slice(at, at + PIECE);
        failed = await ask("PATCH", `${to}?upload=${name}&at=${at}`, piece, isNew, (bytes) => { shown.bar.value = (at + bytes) / file.size; });
        if (failed.status !== 200) break;
        at = Number(failed.text);
        failures = 0;
      }
      if (!MAY_RETRY.includes(failed.status)) return failed;
    }
    return failed;
  }

  async function send(path, file) {
    const url = here + path.map(encodeURIComponent).join("/");
    const shown = uploadLine(list, path.join("/"));
    let done = await put(url, file, true, shown);
    if (done.status === 412 && confirm(`${path.join("/")} exists. Replace it?`)) done = await put(url, file, false, shown);
    const isDone = done.status === 201 || done.status === 204;
    shown.bar.hidden = true;
    shown.state.textContent = isDone ? "uploaded" : done.status === 0 ? done.text : say(done.status, done.text);
    shown.item.classList.toggle("bad", !isDone);
    return isDone;
  }

  async function make(path) {
    const url = `${here}${path.map(encodeURIComponent).join("/")}/`;
    const answer = await fetch(url, { method: "MKCOL", headers: { "X-Csrf-Token": csrf } });
    // If the folder exists already, the files go into the existing folder.
    return answer.ok || answer.status === 405;
  }

  const entriesOf = (reader) => new Promise((resolve) => { reader.readEntries(resolve, () => resolve([])); });

  async function sendEntry(entry, above) {
    const path = [...above, entry.name];
    if (entry.isFile) {
      const file = await new Promise((resolve) => { entry.file(resolve, () => resolve(null)); });
      return file ? send(path, file) : false;
    }
    let isDone = await make(path);
    const reader = entry.createReader();
    for (let some = await entriesOf(reader); some.length; some = await entriesOf(reader)) {
      for (const one of some) isDone = (await sendEntry(one, path)) && isDone;
    }
    return isDone;
  }

  const busy = (event) => event.preventDefault();

  async function sendAll(work) {
    addEventListener("beforeunload", busy);
    let isDone = true;
    for (const one of work) isDone = (await one()) && isDone;
    removeEventListener("beforeunload", busy);
    if (isDone && work.length) location.assign(`${here}?done=uploaded`);
  }

  picker.addEventListener("change", () => sendAll([...picker.files].map((file) => () => send([file.name], file))));
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("over"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    // The entries and files of the drop must be read before the first `await`, because the browser clears them after the event.
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const dropped = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
    sendAll(dropped.map(({ entry, file }) => () => (entry ? sendEntry(entry, []) : send([file.name], file))));
  });
}
