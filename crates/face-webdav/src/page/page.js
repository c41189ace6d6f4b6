// This script changes, sorts and filters entries. Without the script, the page still shows a directory, and files can still be downloaded.
"use strict";

const list = document.getElementById("list");
const log = document.getElementById("log");
const here = location.pathname;
const mayWrite = document.body.dataset.store === "yes";

// Texts can contain file names. So the script sets them as text, and the browser does not parse them as HTML.
function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function say(text, isBad = false) {
  const line = element("p", text, isBad ? { class: "bad", role: "alert" } : {});
  log.append(line);
  return line;
}

const WORDS = {
  401: "you are no longer signed in: reload the page",
  403: "you do not have the right to do this",
  404: "it does not exist, or you may not see it",
  405: "an entry with this name already exists",
  409: "some entries could not be changed, or the entry was changed meanwhile",
  412: "an entry with this name already exists",
  423: "another user has locked it",
  503: "the datastore is not available at the moment",
  507: "no space is left",
};

// With these statuses the server sends the reason of a refusal, if the user may know the reason. Otherwise the server sends only this text.
const BARE = { 409: "conflict", 503: "service unavailable" };

function words(status, text) {
  const said = text.trim();
  if (status in BARE && said && said !== BARE[status]) return said;
  return WORDS[status] ?? `the server says ${status}`;
}

async function ask(method, path, headers = {}) {
  const answer = await fetch(path, { method, headers, redirect: "manual", cache: "no-store" });
  if (answer.status === 207) throw Object.assign(new Error(WORDS[409]), { status: 207 });
  if (!answer.ok) throw Object.assign(new Error(words(answer.status, await answer.text())), { status: answer.status });
  return answer;
}

// The action that each right permits. The page asks the server about these rights.
const DEEDS = { "add-file": "add files here", "add-subdirectory": "make folders here", write: "change this entry", delete: "rename, move or delete this entry" };

async function why(path, right) {
  const box = document.getElementById("dialog");
  box.replaceChildren(element("h2", decodeURIComponent(path)));
  try {
    const told = await (await ask("GET", `${path}?why=${right}`)).json();
    const deed = DEEDS[right] ?? right;
    box.append(element("p", told.granted ? `You may ${deed}. All your rights: ${told.rights}.` : `You may not ${deed}. ${told.says}`));
    if (told.walk.length) box.append(element("pre", told.walk.join("\n")));
  } catch (failure) {
    box.append(element("p", failure.message));
  }
  const close = element("button", "Close", { autofocus: "" });
  close.onclick = () => box.close();
  box.append(close);
  box.showModal();
}

// Opens a dialog. Returns the entered text, or `true` if the dialog has no input. Returns `null` if the user cancelled.
function confirmed(title, action, value) {
  const box = document.getElementById("dialog");
  const form = element("form", undefined, { method: "dialog" });
  form.append(element("h2", title));
  const input = value === undefined ? null : element("input", undefined, { value, "aria-label": title });
  if (input) form.append(input);
  const buttons = element("p");
  const yes = element("button", action, { value: "yes" });
  buttons.append(yes, " ", element("button", "Cancel", { value: "" }));
  form.append(buttons);
  box.replaceChildren(form);
  box.returnValue = "";
  box.showModal();
  (input ?? yes).focus();
  if (input) input.select();
  return new Promise((resolve) => {
    box.onclose = () => resolve(box.returnValue === "yes" ? (input ? input.value : true) : null);
  });
}

async function change(what, right, path, work) {
  try {
    await work();
    location.reload();
  } catch (failure) {
    const line = say(`${what}: ${failure.message}`, true);
    if (failure.status === 403) {
      const button = element("button", "Why?");
      button.onclick = () => why(path, right);
      line.append(button);
    }
  }
}

function upload(file) {
  return new Promise((resolve, reject) => {
    const line = say(file.name);
    const bar = element("progress", undefined, { max: "1", value: "0", "aria-label": file.name });
    line.append(bar);
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => { if (event.lengthComputable) bar.value = event.loaded / event.total; };
    request.onload = () => {
      bar.remove();
      if (request.status === 201 || request.status === 204) { line.textContent = `${file.name}: uploaded`; return resolve(); }
      line.className = "bad";
      line.textContent = `${file.name}: ${words(request.status, request.responseText)}`;
      if (request.status === 403) {
        const button = element("button", "Why?");
        button.onclick = () => why(here, "add-file");
        line.append(button);
      }
      reject(new Error(line.textContent));
    };
    request.onerror = () => { bar.remove(); line.className = "bad"; line.textContent = `${file.name}: the connection was lost`; reject(new Error(line.textContent)); };
    request.open("PUT", here + encodeURIComponent(file.name));
    // The script asks the user before it overwrites an existing file.
    if (!file.replaces) request.setRequestHeader("If-None-Match", "*");
    request.send(file);
  });
}

async function uploadAll(files) {
  const there = new Set([...list.querySelectorAll(".entry")].map((row) => row.dataset.name));
  let allDone = true;
  for (const file of files) {
    if (there.has(file.name) && !(await confirmed(`${file.name} already exists. Replace it?`, "Replace"))) continue;
    file.replaces = there.has(file.name);
    // Uploads files one after the other.
    try { await upload(file); } catch { allDone = false; }
  }
  if (allDone) location.reload();
}

function sort(by, button) {
  const isUp = button.getAttribute("aria-sort") !== "ascending";
  for (const other of document.querySelectorAll(".head button")) other.removeAttribute("aria-sort");
  button.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const names = new Intl.Collator(undefined, { numeric: true });
  const value = { name: (row) => row.dataset.name, size: (row) => Number(row.dataset.size ?? -1), time: (row) => Number(row.dataset.time) }[by];
  const rows = [...list.querySelectorAll(".entry")];
  const compare = (a, b) => (by === "name" ? names.compare(value(a), value(b)) : value(a) - value(b));
  rows.sort((a, b) => b.classList.contains("dir") - a.classList.contains("dir") || (isUp ? compare(a, b) : compare(b, a)));
  const parts = [...list.querySelectorAll(".part")];
  rows.forEach((row, place) => parts[Math.floor(place / 200)].append(row));
}

function act(button) {
  const row = button.closest(".entry");
  const path = row.querySelector("a").getAttribute("href");
  const name = row.dataset.name;
  if (button.name === "why") return why(path, "write");
  if (button.name === "delete") {
    return confirmed(`Delete ${name}${row.classList.contains("dir") ? " with everything in it" : ""}?`, "Delete").then(
      (yes) => yes && change(`deleting ${name}`, "delete", path, () => ask("DELETE", path)));
  }
  return confirmed(`Rename or move ${name}`, "Rename", name).then((to) => {
    if (!to || to === name) return;
    const goal = to.startsWith("/") ? to : here + to.split("/").map(encodeURIComponent).join("/");
    change(`renaming ${name}`, "delete", path, () => ask("MOVE", path.replace(/\/$/, ""), { Destination: location.origin + goal, Overwrite: "F" }));
  });
}

document.getElementById("tools").hidden = false;
document.getElementById("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of list.querySelectorAll(".entry")) row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
});
for (const button of document.querySelectorAll(".head button")) button.onclick = () => sort(button.name, button);
for (const time of document.querySelectorAll("time")) time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
list.addEventListener("click", (event) => { if (event.target.matches(".acts button")) act(event.target); });
if (mayWrite) {
  const files = document.getElementById("files");
  document.getElementById("upload").onclick = () => files.click();
  files.onchange = () => uploadAll([...files.files]);
  document.getElementById("folder").onclick = () => confirmed("Name of the new folder", "Make", "").then(
    (name) => name && change(`making ${name}`, "add-subdirectory", here, () => ask("MKCOL", here + encodeURIComponent(name))));
  document.getElementById("why").onclick = () => why(here, "add-file");
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
  addEventListener("dragleave", () => document.body.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    uploadAll([...event.dataTransfer.files]);
  });
}
