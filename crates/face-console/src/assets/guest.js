// This script uploads files into a drop box, one after the other.
"use strict";

// The names in this block do not conflict with the names in the other script of the page.
{
  const picker = document.getElementById("drop");
  const list = document.getElementById("uploads");
  const WORDS = { 404: "the link has ended, or nothing can be uploaded here; ask the person who sent you the link", 413: "the file is too large", 429: "too many attempts; try again later", 507: "the file is too large, or no room is left" };

  function put(url, file, shown) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.upload.onprogress = (event) => { if (event.lengthComputable) shown.bar.value = event.loaded / event.total; };
      request.onload = () => resolve(request.status);
      request.onerror = () => resolve(0);
      request.open("PUT", url);
      request.send(file);
    });
  }

  async function sendAll(files) {
    const busy = (event) => event.preventDefault();
    addEventListener("beforeunload", busy);
    for (const file of files) {
      const shown = uploadLine(list, file.name);
      const status = await put(picker.dataset.to + encodeURIComponent(file.name), file, shown);
      shown.bar.hidden = true;
      shown.state.textContent = status === 201 ? "uploaded" : status === 0 ? "the connection was lost; upload the file again" : WORDS[status] ?? `the server says ${status}`;
      shown.item.classList.toggle("bad", status !== 201);
    }
    removeEventListener("beforeunload", busy);
  }

  picker?.addEventListener("change", () => { sendAll([...picker.files]).then(() => { picker.value = ""; }); });
  if (picker) {
    addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
    addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("over"); });
    addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("over");
      // Folders are left out, because a guest can upload only files.
      const items = [...event.dataTransfer.items].filter((item) => item.kind === "file" && !item.webkitGetAsEntry?.()?.isDirectory);
      sendAll(items.map((item) => item.getAsFile()));
    });
  }
}
