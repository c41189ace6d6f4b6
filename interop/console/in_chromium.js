// Tests the pages of the console in Debian's Chromium. Arguments: the URL of the server, a directory for screenshots, and a directory for the
// browser's profile. The program prints a line for each checked page. If a step fails, the program prints the error, and its exit status is 1.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [server, pictures, profile] = process.argv.slice(2);
const PASSWORD = "correct horse";
const EVIL = "<img src=x onerror=\"document.title='owned'\">'\"&lt;b&gt;{{7*7}}";

async function check(page, name) {
  // The Content-Security-Policy of the page does not apply to Playwright's scripts.
  await page.evaluate(axe);
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}.png`) });
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
    assert.deepEqual(serious.map((one) => [one.id, one.nodes.map((node) => node.html)]), [], `axe-core on ${name}, ${colorScheme}`);
  }
  for (const [width, kind] of [[1280, "wide"], [360, "phone"]]) {
    await page.setViewportSize({ width, height: 800 });
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    await page.screenshot({ path: path.join(pictures, `${name}-${kind}.png`) });
    assert.ok(over <= 0, `${name} is ${over} pixels too wide at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  console.log(`looked at ${name}`);
}

async function signIn(page, user) {
  await page.goto(`${server}/`);
  await page.fill("#user", user);
  await page.fill("#password", PASSWORD);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server}/console/`);
}

async function files(page) {
  await page.click("text=main");
  await check(page, "folder");
  // Creates a folder with HTML in its name. Uses only the keyboard.
  await page.locator("summary", { hasText: "New folder" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.type(EVIL.replace("/", ""));
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=The folder was created.");
  assert.equal(await page.locator("h1").innerText(), EVIL.replace("/", ""));
  await check(page, "empty-folder");
  // Uploads two files, one of them with HTML in its name.
  await page.setInputFiles("#upload", [
    { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("what went up") },
    { name: "<script>document.title='owned'<script>.html", mimeType: "text/html", buffer: Buffer.from("<script>document.title='owned'</script>") },
  ]);
  await page.waitForSelector("text=Uploaded.");
  assert.equal(await page.locator("tbody tr").count(), 2);
  // An existing file is replaced only if the user confirms this.
  page.once("dialog", (dialog) => dialog.dismiss());
  await page.setInputFiles("#upload", [{ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("other") }]);
  await page.waitForSelector("text=a file with this name exists");
  await page.reload();
  await page.click("text=note.txt");
  assert.equal((await page.locator("pre.text").innerText()).trim(), "what went up");
  await check(page, "file");
  await page.goBack();
  await page.click("text=.html");
  await page.waitForSelector("pre.text");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Download")]);
  assert.match(download.suggestedFilename(), /html$/);
  // The page sends a large file in pieces. The upload continues after a broken connection, and after a reload of the page.
  await page.goto(`${server}/console/files/main/`);
  const large = path.join(profile, "large.bin");
  fs.writeFileSync(large, Buffer.alloc(30 << 20, "large "));
  const pieces = [];
  let broken = 0;
  await page.route(/\/console\/uploads\/.*at=/, (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get("at"));
    pieces.push(at);
    // The connection breaks once while the second piece is sent. The third piece is blocked until the reload. After the reload, the rest is sent.
    if (at === 8 << 20 && broken < 1) { broken += 1; return route.abort("connectionreset"); }
    if (at === 16 << 20 && broken < 2) { broken += 1; return undefined; }
    return route.continue();
  });
  await page.setInputFiles("#upload", large);
  while (broken < 2) await page.waitForTimeout(50);
  page.once("dialog", (dialog) => dialog.accept());
  await page.reload();
  await page.setInputFiles("#upload", large);
  await page.waitForSelector("text=Uploaded.", { timeout: 60_000 });
  await page.unroute(/\/console\/uploads\/.*at=/);
  assert.deepEqual(pieces.map((at) => at >> 20), [0, 8, 8, 16, 16, 24]);
  // Uploads a folder by drag and drop.
  await page.goto(`${server}/console/files/main/`);
  const dropped = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["dropped"], "dropped.txt"));
    return transfer;
  });
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  await page.waitForSelector("text=Uploaded.");
  assert.ok(await page.locator("a.entry", { hasText: "dropped.txt" }).count());
  // Searches, renames and deletes files.
  await page.fill("[name=q]", "note");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=note.txt");
  await check(page, "search");
  await page.click("text=note.txt");
  await page.click("summary[aria-label='More for this file']");
  await page.fill("#to", "renamed.txt");
  await page.click("text=Rename or move");
  await page.waitForSelector("text=Moved.");
  assert.equal(await page.locator("h1").innerText(), "renamed.txt");
  // Deletes the file, and restores it at once.
  await page.click("summary[aria-label='More for this file']");
  await page.click("button[value=remove]");
  await page.waitForSelector("text=Moved to the trash.");
  await check(page, "undo");
  assert.equal(await page.locator("a.entry", { hasText: "renamed.txt" }).count(), 0);
  await page.click("button:has-text('Undo')");
  await page.waitForSelector("text=Restored.");
  // Deletes the file again, and restores it on the page of the trash.
  await page.click("text=renamed.txt");
  await page.click("summary[aria-label='More for this file']");
  await page.click("button[value=remove]");
  await page.waitForSelector("text=Moved to the trash.");
  await page.click("nav[aria-label=Sections] >> text=Trash");
  await page.waitForSelector("text=Trash of main");
  await check(page, "trash");
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.locator("tbody tr button[value=restore]").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=Restored.");
  await page.click("text=renamed.txt");
  // Deletes the file for good.
  await page.click("summary[aria-label='More for this file']");
  page.once("dialog", (dialog) => dialog.accept());
  await page.click("button[value=erase]");
  await page.waitForSelector("text=Deleted.");
  await page.goto(`${server}/console/trash/main/`);
  await page.waitForSelector("text=Nothing is here");
  await page.goto(`${server}/console/why/main/?right=write`);
  await check(page, "why");
}

async function account(page) {
  await page.goto(`${server}/console/account`);
  await check(page, "account");
  await page.click("summary:has-text('New token')");
  await page.fill("#token-name", "laptop");
  await page.click("button:has-text('Create')");
  assert.match(await page.locator("#secret").innerText(), /^[0-9a-f-]{20,}$|^[A-Za-z0-9_-]{20,}$/);
  await check(page, "new-token");
  await page.click("text=Done");
  await page.waitForSelector("text=laptop");
}

// The user shares a folder. A guest in another browser opens the link and uploads into a drop box. Then the user ends the link.
async function links(page, guest) {
  const share = async (place, fill) => {
    await page.goto(`${server}/console/files/main/${place}`);
    await page.click("summary:has-text('Share')");
    await fill();
    await check(page, "share");
    // The check resizes the window, but the menu stays open.
    await page.click("button:has-text('Make the link')");
    return (await page.locator("#secret").innerText()).trim();
  };
  const url = await share("letters/", async () => {
    await page.fill("#link-name", EVIL);
    await page.fill("#link-password", "sesame");
  });
  await check(page, "new-link");
  await guest.goto(url);
  await check(guest, "guest-password");
  await guest.fill("#password", "sesame");
  await guest.keyboard.press("Enter");
  await guest.waitForSelector("h1:has-text('letters')");
  await check(guest, "guest-folder");
  const [download] = await Promise.all([guest.waitForEvent("download"), guest.click("text=Download all as zip")]);
  assert.equal(download.suggestedFilename(), "letters.zip");
  assert.deepEqual((await guest.context().cookies()).map((cookie) => cookie.name), ["__Host-enfilade-link"]);
  const box = await share("inbox/", () => page.check("[name=drop]"));
  await guest.goto(box);
  await check(guest, "guest-drop-box");
  const name = EVIL.replace("/", "");
  await guest.setInputFiles("#drop", [{ name, mimeType: "text/plain", buffer: Buffer.from("from a guest") }]);
  await guest.waitForSelector("text=uploaded");
  assert.equal(await guest.locator("#uploads li span").first().innerText(), name);
  await page.goto(`${server}/console/files/main/inbox/`);
  assert.equal(await page.locator("a.entry").count(), 1);
  await page.goto(`${server}/console/links`);
  await check(page, "links");
  for (let left = 2; left > 0; left -= 1) {
    page.once("dialog", (dialog) => dialog.accept());
    await page.locator("button:has-text('End')").first().click();
    await page.waitForSelector("text=The link was ended.");
    assert.equal(await page.locator("tbody tr").count(), left - 1);
  }
  for (const ended of [url, box]) assert.equal((await guest.goto(ended)).status(), 404);
  await check(guest, "guest-ended");
  assert.notEqual(await guest.title(), "owned");
}

// Returns the code that an authenticator app shows (RFC 6238) `steps` time steps after the present step.
function totp(secret, steps) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map((digit) => digits.indexOf(digit).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const tag = crypto.createHmac("sha1", key).update(step).digest();
  const part = tag.readUInt32BE(tag[19] & 15) & 0x7fffffff;
  return String(part % 1_000_000).padStart(6, "0");
}

async function secondFactor(page) {
  await page.goto(`${server}/console/account`);
  await page.fill("#factor-password", PASSWORD);
  await page.keyboard.press("Enter");
  await page.waitForSelector("svg.qr");
  await check(page, "second-factor");
  const secret = await page.locator("#secret").innerText();
  await page.fill("#factor-code", totp(secret, 0));
  await page.keyboard.press("Enter");
  await page.waitForSelector("#recovery-codes");
  await check(page, "recovery-codes");
  const [recovery, other, third] = (await page.locator("#recovery-codes").innerText()).split("\n");
  // The user enters first the password, and then the code.
  await page.click("a:has-text('Sign in')");
  await page.fill("#user", "bob");
  await page.fill("#password", PASSWORD);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#passcode");
  await check(page, "sign-in-code");
  await page.fill("#passcode", "000000");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=The code is wrong");
  await page.fill("#passcode", totp(secret, 1));
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server}/console/`);
  await page.click("button[title='Sign out']");
  await page.click("text=Sign in again");
  await page.fill("#user", "bob");
  await page.fill("#password", PASSWORD);
  await page.keyboard.press("Enter");
  await page.fill("#passcode", recovery);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${server}/console/`);
  await page.goto(`${server}/console/account`);
  await page.waitForSelector("text=9 recovery codes are left.");
  await check(page, "account-second-factor");
  await passkey(page, third);
  await page.fill("#factor-password", PASSWORD);
  await page.fill("#factor-code", other);
  await page.click("button.danger:has-text('Remove the second factor')");
  await page.waitForSelector("text=The second factor was removed.");
}

// Adds a passkey, signs in with it, and sends the same answer of the authenticator again.
async function passkey(page, code) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
  await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  await page.click("summary:has-text('Add a passkey')");
  await page.fill("#passkey-name", EVIL.slice(0, 60));
  await page.fill("#passkey-password", PASSWORD);
  await page.fill("#passkey-code", code);
  await page.click("button:has-text('Make the passkey')");
  const refused = page.locator("[data-passkey-problem]:visible, .note.bad:visible");
  await page.waitForSelector("text=The passkey was added.").catch(async (error) => { throw new Error(`${error.message}: ${await refused.allInnerTexts()}`); });
  await check(page, "account-passkey");
  await page.click("button[title='Sign out']");
  await page.click("text=Sign in again");
  await page.fill("#user", "bob");
  await page.fill("#password", PASSWORD);
  await page.keyboard.press("Enter");
  await page.waitForSelector("button:has-text('Use a passkey')");
  await check(page, "sign-in-passkey");
  const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/console/sign-in"));
  await page.click("button:has-text('Use a passkey')");
  const data = (await sent).postData();
  await page.waitForURL(`${server}/console/`);
  const headers = { origin: server, "content-type": "application/x-www-form-urlencoded" };
  const again = await page.request.post(`${server}/console/sign-in`, { data, headers, maxRedirects: 0 });
  assert.equal(again.status(), 403);
  assert.match(await again.text(), /The passkey was not accepted/);
  await page.goto(`${server}/console/account`);
  await page.click("summary:has-text('Remove <img')");
  await page.fill("#passkey-0", PASSWORD);
  await page.click("button:has-text('Remove the passkey')");
  await page.waitForSelector("text=The passkey was removed.");
}

async function administration(page) {
  for (const [url, name] of [
    ["users", "users"],
    ["users?user=alice%40local", "user"],
    ["groups", "groups"],
    ["roles", "roles"],
    ["datastores", "datastores"],
    ["applications", "applications"],
    ["certificates?name=localhost", "certificates"],
    ["keys", "keys"],
    ["changes", "changes"],
    ["refusals", "refusals"],
    ["health", "health"],
    ["explain?who=bob%40local&right=write&datastore=main&path=%2F", "explain"],
    ["manual", "manual"],
    ["manual/console", "manual-page"],
    ["manual?q=recovery+codes", "manual-search"],
    ["review/main/", "review"],
  ]) {
    const answer = await page.goto(`${server}/console/${url}`);
    assert.equal(answer.status(), 200, url);
    await check(page, name);
  }
  await compareMoments(page);
}

// The page "Who can read this?" is open. The script compares an earlier CSV file with the rights of now.
async function compareMoments(page) {
  const now = await page.evaluate(async () => (await fetch("/console/review-csv/main/")).text());
  const choose = (text) => page.setInputFiles("#earlier", [{ name: "main.csv", mimeType: "text/csv", buffer: Buffer.from(text) }]);
  await choose(now);
  await page.waitForSelector("text=All rights are the same.");
  const lines = now.trimEnd().split("\n");
  const [, path, kind, who, rights] = lines[1].match(/^([^,]*),([^,]*),([^,]*),"?(.*?)"?$/);
  const gone = '"/<img src=x>, ""old""",file,bob@local,read';
  await choose([lines[0], [path, kind, who, "write"].join(), ...lines.slice(2), gone, ""].join("\r\n"));
  await page.waitForSelector("text=2 rights are different.");
  const rows = await page.$$eval("#compare tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.deepEqual(rows, [[who, path, "write", rights], ["bob@local", '/<img src=x>, "old"', "read", "nothing"]]);
  await check(page, "review-compared");
  for (const text of ["something else", now.slice(0, -1), `${lines[0]}\n/a,file,`]) {
    await choose(text);
    await page.waitForSelector("text=This is not a CSV file of this page");
    await choose(now);
    await page.waitForSelector("text=All rights are the same.");
  }
  await choose(`${lines[0]}\n/letters,directory,bob@local,read\n`);
  await page.waitForSelector("text=This CSV file is of another folder.");
  await page.goto(`${server}/console/review/main/letters/`);
  await choose(now);
  await page.waitForSelector("text=This CSV file is of another folder.");
}

async function run() {
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
  const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const options = { executablePath: "/usr/bin/chromium", args: [...args, ...quiet], headless: true };
  const browser = await chromium.launchPersistentContext(profile, { ...options, ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
  browser.setDefaultTimeout(20_000);
  const problems = [];
  const watched = (page) => {
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("console", (message) => { if (message.type() === "error" && !/status of (403|404|412|422)|net::ERR_CONNECTION_RESET/.test(message.text())) problems.push(message.text()); });
    return page;
  };
  const alice = watched(browser.pages()[0] ?? (await browser.newPage()));
  await alice.goto(`${server}/`);
  await check(alice, "sign-in");
  await signIn(alice, "alice");
  await check(alice, "start");
  await files(alice);
  await account(alice);
  // A second user works at the same time, in a separate browser.
  const second = await chromium.launch(options);
  const root = watched(await (await second.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })).newPage());
  root.setDefaultTimeout(20_000);
  await signIn(root, "root@local");
  const guest = watched(await (await second.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })).newPage());
  guest.setDefaultTimeout(20_000);
  await links(alice, guest);
  await administration(root);
  const third = watched(await (await second.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })).newPage());
  third.setDefaultTimeout(20_000);
  await signIn(third, "bob");
  await secondFactor(third);
  await root.goto(`${server}/console/users?user=alice%40local`);
  await root.click("button:has-text('End all sessions')");
  await root.waitForSelector("text=Done.");
  // The sessions of the user alice have ended, so the next click of this user leads to the sign-in page.
  await alice.click("text=Files");
  await alice.waitForURL(/\/console\/sign-in/);
  await second.close();
  for (const page of browser.pages()) assert.notEqual(await page.title(), "owned");
  assert.deepEqual(problems, []);
  await browser.close();
  console.log("done");
}

run().catch((error) => {
  console.error(error);
  process.exit(1);
});
