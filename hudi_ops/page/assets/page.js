// What the page does beside htmx: links to Airflow's pages, and the dialogs that preview, run and cancel.
// Texts of servers go into the page by textContent alone. Previews, looks and cancels are routes of this app; DAG runs are Airflow's.
"use strict";
(() => {
  const ROWS_MAX = 200, FOLLOW_CANCEL_MS = 300_000, TRIES_MAX = 6, SAID_MS = 20_000;
  const body = document.body;
  const SERVICES = JSON.parse(body.dataset.services || "[]");
  const airflow = new URL(body.dataset.airflow || "../", location.href).href;
  const app = new URL(body.dataset.page === "table" ? "../" : "./", location.href).href;
  const at = (id) => document.getElementById(id);
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

  // ---- words ----
  let saidLast = 0;
  const said = (text) => {
    const region = at("said");
    if (region && region.textContent !== text) region.textContent = text;
    clearTimeout(saidLast);
    saidLast = setTimeout(() => { if (region) region.textContent = ""; }, SAID_MS);
  };
  const number = (value) => value.toLocaleString("en-US");
  const sized = (value) => {
    for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
    return `${number(value)} bytes`;
  };
  const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const shown = (name, value) => {
    if (value === null || value === undefined || value === "") return "–";
    if (typeof value === "number") return /(^|_)bytes(_|$)/.test(name) ? sized(value) : number(value);
    if (typeof value === "boolean") return value ? "yes" : "no";
    return typeof value === "string" ? value : JSON.stringify(value);
  };
  const isEmpty = (value) => !value || (typeof value === "object" && Object.values(value).every(isEmpty));
  const node = (tag, text, properties = {}) => Object.assign(document.createElement(tag), { textContent: text ?? "" }, properties);

  // ---- requests ----
  class Trouble extends Error {
    constructor(message, status = 0, facts = {}) { super(message); this.status = status; this.facts = facts; }
  }
  const OVER = "Your session is over. Sign in to Airflow again, then repeat it.";
  const ask = async (url, options = {}) => {
    let answer;
    try { answer = await fetch(url, { credentials: "same-origin", redirect: "error", ...options }); } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble("Airflow's API server does not answer.");
    }
    const text = await answer.text();
    let facts = null;
    try { facts = JSON.parse(text); } catch { /* an error page of a proxy is no JSON; its status says enough */ }
    if (answer.status === 401) throw new Trouble(OVER, 401);
    if (answer.ok && facts !== null) return facts;
    const detail = facts && (facts.message || facts.detail);
    const words = typeof detail === "string" ? detail : detail ? JSON.stringify(detail) : `The server answered with ${answer.status}.`;
    const trouble = new Trouble(words, answer.status, facts || {});
    trouble.retryAfter = Number(answer.headers.get("Retry-After")) || 2;
    throw trouble;
  };
  const sent = (method, value, signal) => ({ method, signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
  const post = async (table, what, value, { signal, waits = () => {} } = {}) => {
    for (let tries = 1; ; tries += 1) {
      try { return await ask(`${app}tables/${encodeURIComponent(table)}/${what}`, sent("POST", value, signal)); } catch (trouble) {
        if (trouble.status !== 429 || tries === TRIES_MAX) throw trouble;
        waits("Others are served first; waiting for a free place.");
        await sleep(1000 * Math.min(trouble.retryAfter, 10));
        if (signal && signal.aborted) throw new DOMException("closed", "AbortError");
      }
    }
  };
  const api = (path, options) => ask(`${airflow}api/v2/${path}`, options);
  const dagPath = (dag, run) => `dags/${encodeURIComponent(dag)}${run ? `/dagRuns/${encodeURIComponent(run)}` : ""}`;
  const runLink = (dag, run, task) =>
    `${airflow}dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(run)}${task ? `/tasks/${encodeURIComponent(task)}` : ""}`;

  // ---- DAGs: which there are, and whether they are paused; asked once a minute ----
  const dags = { known: new Map(), at: new Map() };
  const search = async (pattern, limit) => {
    const query = new URLSearchParams({ dag_id_prefix_pattern: pattern, order_by: "dag_id", limit: String(limit) });
    const found = await api(`dags?${query}`);
    for (const dag of found.dags) dags.known.set(dag.dag_id, dag);
    return found.total_entries > limit;
  };
  const learn = async (key, ids) => {
    if (Date.now() - (dags.at.get(key) || 0) < 60_000) return;
    for (const id of ids) dags.known.delete(id);
    // Of DAGs whose names begin alike an answer has one hundred; then each id is asked for alone: it comes first.
    const isCut = await search(ids.join("|"), ids.length > 1 ? 100 : 1);
    if (isCut && ids.length > 1) await Promise.all(ids.map((id) => search(id, 100)));
    dags.at.set(key, Date.now());
  };
  // A list never answers with 404, which browsers log as an error.
  const dagOf = async (service, table, ids = [`${service}__${table}`, service]) => {
    const own = SERVICES.concat("cancel").map((one) => `${one}__${table}`);
    await learn(`__${table}`, own);
    if (!dags.known.has(ids[0]) && ids.includes(service)) await learn(service, [service]);
    // A paused DAG of the table is not passed by: who paused it wants no run.
    const dag = ids.map((id) => dags.known.get(id)).find(Boolean);
    const why = !dag ? `Airflow has no DAG ${ids.join(" or ")} that you may see.`
      : dag.is_paused ? `The DAG ${dag.dag_id} is paused.`
        : dag.has_import_errors ? `The DAG ${dag.dag_id} has import errors.` : "";
    return { dag, why };
  };

  // ---- buttons ----
  const tableOf = (button) => body.dataset.table || commandOf(button)[1] || "";
  const commandOf = (button) => { try { return JSON.parse(button.dataset.command || "[]"); } catch { return []; } };
  const signature = (button) => JSON.stringify(["act", "command", "service", "instant"].map((name) => button.dataset[name] || ""));
  const sameButton = (wanted) => [...document.querySelectorAll("button[data-act]")].find((one) => signature(one) === wanted);
  const block = (button, why) => {
    const id = button.dataset.blocked;
    if (!why) {
      if (!id) return;
      at(id)?.remove();
      button.removeAttribute("aria-describedby");
      delete button.dataset.blocked;
      button.disabled = false;
      return;
    }
    if (id) { const words = at(id); if (words) words.textContent = why; return; }
    const words = node("span", why, { className: "why", id: `why-${crypto.getRandomValues(new Uint32Array(1))[0]}` });
    button.after(words);
    button.setAttribute("aria-describedby", words.id);
    button.dataset.blocked = words.id;
    button.disabled = true;
  };
  const mark = async () => {
    for (const button of document.querySelectorAll('button[data-act="preview"]')) {
      if (button.disabled && !button.dataset.blocked) continue; // the server said why
      if (!SERVICES.includes(button.dataset.service)) continue;
      try { block(button, (await dagOf(button.dataset.service, tableOf(button))).why); } catch (trouble) {
        if (trouble.status === 401) said(OVER);
        return; // without an answer buttons stay as they are: Run asks again
      }
    }
  };

  // ---- the dialog: one act at a time; an act that was closed goes on in the background, without the dialog ----
  const dialog = at("act");
  let current = null, last = "";
  class Act {
    constructor(button, title, text) {
      this.signature = signature(button);
      this.table = tableOf(button);
      this.closed = new AbortController();
      this.busy = false;
      current?.closed.abort();
      current = this;
      for (const id of ["act-facts", "act-links", "act-state", "act-error"]) at(id).replaceChildren();
      at("act-title").textContent = title;
      at("act-text").textContent = text;
      at("act-command").hidden = true;
      at("act-ask").hidden = true;
      this.buttons();
      if (!dialog.open) dialog.showModal();
      at("act-title").focus();
    }
    get isShown() { return current === this && dialog.open; }
    // While a dialog is open, the rest of the page is inert, its live region, too: the dialog has its own.
    say(text) { if (this.isShown) at("act-state").textContent = text; else said(text); }
    fail(text) { if (this.isShown) { at("act-error").textContent = text; at("act-state").textContent = ""; } else said(text); }
    command(text) { if (this.isShown) { at("act-command").hidden = !text; at("act-command").firstElementChild.textContent = text || ""; } }
    text(text) { if (this.isShown) at("act-text").textContent = text; }
    facts(...nodes) { if (this.isShown) at("act-facts").replaceChildren(...nodes); }
    link(text, href) {
      if (!this.isShown) return;
      if ([...at("act-links").children].some((one) => one.href === href)) return;
      const anchor = node("a", text, { href, target: "_top" });
      anchor.dataset.href = href;
      at("act-links").append(anchor);
    }
    buttons(main = null, other = null, close = "Close") {
      if (current !== this) return;
      this.main = main; this.other = other;
      for (const [id, button] of [["act-do", main], ["act-other", other]]) {
        const had = document.activeElement === at(id);
        at(id).hidden = !button;
        at(id).textContent = button ? button.text : "";
        at(id).removeAttribute("aria-disabled");
        if (had && !button) at("act-title").focus();
      }
      at("act-close").textContent = close;
    }
    async work(button) {
      if (this.busy || !button) return;
      this.busy = true; // a second click does nothing
      for (const id of ["act-do", "act-other"]) at(id).setAttribute("aria-disabled", "true");
      if (this.isShown) at("act-error").textContent = "";
      try { await button.call(); } catch (trouble) {
        if (trouble.name !== "AbortError") this.fail(trouble.message);
      } finally {
        this.busy = false;
        if (current === this) for (const id of ["act-do", "act-other"]) at(id).removeAttribute("aria-disabled");
      }
    }
  }
  if (dialog) {
    at("act-form").addEventListener("submit", (event) => { event.preventDefault(); current?.work(current.main); });
    at("act-other").addEventListener("click", () => current?.work(current.other));
    at("act-close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      current?.closed.abort();
      const button = current && sameButton(current.signature);
      current = null;
      if (button && !button.disabled) button.focus();
      else { const content = at("content"); if (content) { content.tabIndex = -1; content.focus({ preventScroll: true }); } }
    });
  }
  const changed = () => body.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
  const freshLook = async (table, tell) => {
    try { await post(table, "look", {}, { waits: tell }); } finally { changed(); }
  };

  // ---- facts as lists and tables ----
  const listOf = (pairs) => {
    const list = node("dl");
    for (const [name, value] of pairs) list.append(node("dt", name), node("dd", value));
    return list;
  };
  const tableOfRows = (title, rows, total) => {
    const names = Object.keys(rows[0]);
    const table = node("table"), head = table.createTHead().insertRow(), part = table.createTBody();
    table.prepend(node("caption", rows.length < total ? `${title}: the first ${number(rows.length)} of ${number(total)}` : `${title}: ${number(total)}`));
    for (const name of names) head.append(node("th", name.replaceAll("_", " "), { scope: "col" }));
    for (const row of rows) {
      const line = part.insertRow();
      for (const name of names) line.append(node("td", shown(name, row[name]), { className: typeof row[name] === "number" ? "number" : "" }));
    }
    const box = node("div", "", { className: "scroll", tabIndex: 0 });
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", title);
    box.append(table);
    return box;
  };
  const LEFT_OUT = new Set(["table", "dry_run", "note", "view", "seconds"]);
  const factsOf = (dryRun, leftOut) => {
    const pairs = [], tables = [];
    for (const [name, value] of Object.entries(dryRun)) {
      const words = name.replaceAll("_", " ");
      if (isEmpty(value) || LEFT_OUT.has(name)) continue;
      if (Array.isArray(value) && typeof value[0] === "object") {
        const title = name === "verdicts" ? (value[0].file_id !== undefined ? "File groups" : "Decisions") : words;
        tables.push(tableOfRows(title, value.slice(0, ROWS_MAX), value.length + (leftOut[name] || 0)));
      } else if (Array.isArray(value)) pairs.push([words, value.map((one) => shown(name, one)).join(", ")]);
      else if (typeof value === "object") {
        for (const [part, one] of Object.entries(value)) if (!isEmpty(one)) pairs.push([`${words}: ${part.replaceAll("_", " ")}`, shown(part, one)]);
      } else pairs.push([words, shown(name, value)]);
    }
    return [listOf(pairs), ...tables];
  };

  // ---- preview and run ----
  const ENDS = { success: "succeeded", failed: "failed" };
  const preview = async (button) => {
    const words = commandOf(button);
    const act = new Act(button, `Preview: ${words.slice(0, 1).join(" ")} ${tableOf(button)}`, "");
    const load = async () => {
      act.buttons();
      act.say("Asking what it would do; nothing is changed…");
      const found = await post(act.table, "preview", { command: words }, { signal: act.closed.signal, waits: (text) => act.say(text) });
      act.command(found.command);
      act.text(found.dry_run?.note || "");
      act.facts(...(found.dry_run ? factsOf(found.dry_run, found.left_out || {}) : []), ...(found.notes || []).map((note) => node("p", note)));
      if (found.why_not) { act.say(found.why_not); return; }
      const { why } = await dagOf(found.service, act.table, found.dag_ids);
      const idle = found.dry_run?.counts?.planned === 0 || found.dry_run?.instants === 0;
      const would = idle ? "It would do nothing now." : "This is what it would do. Run starts it as a DAG run.";
      act.say(why || would);
      if (!why) act.buttons({ text: "Run", call: () => run(act, found, load, false) });
    };
    await act.work({ call: load });
  };
  const run = async (act, found, load, isAnyway) => {
    if (!isAnyway) {
      act.say("Looking whether the table is as it was…");
      const { moved } = await post(act.table, "state", { digest: found.digest }, { signal: act.closed.signal, waits: (text) => act.say(text) });
      if (moved) {
        act.say("The table has changed since this preview: the run may do something else. Preview it again, or run it anyway.");
        act.buttons({ text: "Preview again", call: load }, { text: "Run anyway", call: () => run(act, found, load, true) });
        return;
      }
    }
    dags.at.clear();
    const { dag, why } = await dagOf(found.service, act.table, found.dag_ids);
    if (why) throw new Trouble(why);
    act.buttons();
    await started(act, dag, found.conf);
  };
  const started = async (act, dag, conf) => {
    act.say(`Starting the DAG ${dag.dag_id}…`);
    let made;
    try { made = await api(`${dagPath(dag.dag_id)}/dagRuns`, sent("POST", { logical_date: null, conf })); } catch (trouble) {
      if (trouble.status === 403) throw new Trouble(`You may not start the DAG ${dag.dag_id}: ${trouble.message}`, 403);
      throw trouble;
    }
    act.link(`Open run ${made.dag_run_id} in Airflow`, runLink(dag.dag_id, made.dag_run_id));
    act.buttons();
    followRun(act, dag, made); // in the background, also when the dialog is closed
  };
  const followRun = async (act, dag, made) => {
    const path = dagPath(dag.dag_id, made.dag_run_id);
    let missed = 0;
    for (let looks = 0; ; looks += 1) {
      await sleep(looks < 30 ? 2000 : 5000);
      try {
        const now = await api(path);
        missed = 0;
        if (ENDS[now.state]) { await ended(act, dag, now); return; }
        act.say(now.state === "queued" ? await queuedText(dag, now) : await runningText(act, dag, now));
      } catch (trouble) {
        missed += 1;
        if (trouble.status === 401 || trouble.status === 403 || trouble.status === 404 || missed === 10) {
          act.fail(`Run ${made.dag_run_id} goes on; it is not followed any more: ${trouble.message}`);
          return;
        }
      }
    }
  };
  const queuedText = async (dag, now) => {
    const query = new URLSearchParams({ state: "running", limit: "1", order_by: "run_after" });
    const { dag_runs: others } = await api(`${dagPath(dag.dag_id)}/dagRuns?${query}`);
    return others.length
      ? `Run ${now.dag_run_id} is queued. It waits for run ${others[0].dag_run_id}: the DAG ${dag.dag_id} has one run at a time.`
      : `Run ${now.dag_run_id} is queued: the scheduler starts it.`;
  };
  const tasksOf = async (dag, now) => (await api(`${dagPath(dag.dag_id, now.dag_run_id)}/taskInstances?limit=50`)).task_instances;
  const runningText = async (act, dag, now) => {
    const task = (await tasksOf(dag, now)).find((one) => ["running", "up_for_retry", "queued", "scheduled"].includes(one.state));
    if (!task) return `Run ${now.dag_run_id} is running.`;
    act.link(`Log of the task ${task.task_id}`, runLink(dag.dag_id, now.dag_run_id, task.task_id));
    const tries = task.try_number > 1 ? `, try ${task.try_number}` : "";
    return `Run ${now.dag_run_id} is running: task ${task.task_id} is ${task.state.replaceAll("_", " ")}${tries}${task.note ? `. ${task.note}` : ""}`;
  };
  const ended = async (act, dag, now) => {
    // A run succeeds although a task was skipped, for example one whose plan was cancelled amid its work.
    const wanted = now.state === "failed" ? "failed" : "skipped";
    const task = (await tasksOf(dag, now)).find((one) => one.state === wanted);
    let text = `Run ${now.dag_run_id} ${ENDS[now.state]}.`;
    if (task) {
      act.link(`Log of the task ${task.task_id}`, runLink(dag.dag_id, now.dag_run_id, task.task_id));
      const why = task.note || (wanted === "failed" ? "Its log says why" : "There was nothing to do, or its plan was cancelled");
      text = `Run ${now.dag_run_id} ${wanted === "failed" ? "failed" : "ended"}: task ${task.task_id} ${wanted === "failed" ? "failed" : "was skipped"}. ${why.replace(/[.\s]+$/, "")}.`;
    }
    act.say(`${text} Looking at the table again…`);
    try { await freshLook(act.table, () => {}); act.say(`${text} The table was looked at again.`); } catch (trouble) {
      act.say(`${text} A fresh look failed: ${trouble.message}`);
    }
  };

  // ---- cancel ----
  const cancel = (button) => {
    const { instant, action, executor, groups, policy } = button.dataset;
    const plan = `${action || "plan"} ${instant}`;
    const act = new Act(button, `Cancel ${plan}`, "A cancelled plan never completes. Rows do not change; the work on these file groups is discarded.");
    const pairs = [["instant", instant], ["action", action || "–"], ["executor", executor || "none"]];
    if (groups) pairs.push(["discarded work", counted(Number(groups), "file group")]);
    if (policy) pairs.push(["cancel", policy]);
    act.facts(listOf(pairs));
    at("act-ask").hidden = false;
    at("act-reason").value = "";
    at("act-reason").removeAttribute("aria-invalid");
    at("act-force").checked = false;
    at("act-reason").focus();
    act.buttons({ text: "Cancel plan", call: () => request(act, instant) }, null, "Keep");
  };
  const request = async (act, instant) => {
    const field = at("act-reason"), reason = field.value.trim(), force = at("act-force").checked;
    field.setAttribute("aria-invalid", String(!reason));
    if (!reason) { field.focus(); throw new Trouble("Say in one sentence why the plan is cancelled."); }
    act.say("Requesting the cancel…");
    let done;
    try {
      done = await post(act.table, "cancel", force ? { instant, reason, force } : { instant, reason }, { waits: (text) => act.say(text) });
    } catch (trouble) {
      if (trouble.status === 503) await offerDag(act, instant, reason, force, trouble);
      throw trouble;
    }
    at("act-ask").hidden = true;
    act.buttons();
    at("act-title").focus();
    if (done.state === "aborted") { await gone(act, done.reason, done.requester); return; }
    act.say(`The cancel is requested: the plan never completes. ${done.note || ""}`);
    changed();
    followCancel(act, instant);
  };
  const offerDag = async (act, instant, reason, force, trouble) => {
    const { dag, why } = await dagOf("cancel", act.table);
    trouble.message = `${trouble.message.replace(/[.\s]+$/, "")}.`;
    if (why) { trouble.message += ` ${why}`; return; }
    const conf = { table: act.table, instant, reason, ...(force ? { force } : {}) };
    act.buttons(act.main, { text: `Start the DAG ${dag.dag_id}`, call: () => { at("act-ask").hidden = true; return started(act, dag, conf); } }, "Keep");
    trouble.message += ` The DAG ${dag.dag_id} can cancel it from a worker.`;
  };
  const followCancel = async (act, instant) => {
    const until = Date.now() + FOLLOW_CANCEL_MS;
    while (Date.now() < until && act.isShown) {
      await sleep(2000);
      if (!act.isShown) return;
      try {
        const found = await post(act.table, `plans/${encodeURIComponent(instant)}`, {}, { signal: act.closed.signal });
        const plan = found.plans[0];
        if (plan.state === "aborted") { await gone(act, plan.reason, plan.cancelled_by); return; }
        act.say(`The cancel is requested${plan.executor ? `; ${plan.executor} is stopping` : ""}. ${plan.next || ""}`);
      } catch (trouble) {
        if (trouble.name === "AbortError") return;
        if (trouble.status === 401 || trouble.status === 403) { act.fail(trouble.message); return; }
        if (trouble.status !== 429 && trouble.status !== 503) { act.fail(trouble.message); changed(); return; }
      }
    }
    if (act.isShown) act.say("The plan is cancelled, and its executor has not stopped within five minutes. The next write removes the plan.");
  };
  const gone = async (act, reason, who) => {
    const text = `The plan is cancelled and removed. Reason: ${reason || "none given"}${who ? ` (${who})` : ""}.`;
    act.say(`${text} Looking at the table again…`);
    try { await freshLook(act.table, () => {}); act.say(`${text} The table was looked at again.`); } catch (trouble) {
      act.say(`${text} A fresh look failed: ${trouble.message}`);
    }
  };

  // ---- fresh look ----
  const looks = new Set();
  const look = async (button) => {
    const table = tableOf(button), key = signature(button);
    if (looks.has(table)) return;
    looks.add(table);
    button.setAttribute("aria-disabled", "true");
    button.setAttribute("aria-busy", "true");
    said(`Looking at ${table}…`);
    try { await freshLook(table, said); said(`${table} was looked at: the page is up to date.`); } catch (trouble) { said(trouble.message); } finally {
      looks.delete(table);
      for (const one of [button, sameButton(key)]) for (const name of ["aria-disabled", "aria-busy"]) one?.removeAttribute(name);
    }
  };

  // ---- links: the iframe's sandbox has no top navigation, an anchor of the parent has ----
  const open = (event, anchor) => {
    let outer = null;
    try { if (parent !== window && parent.document) outer = parent.document; } catch { /* another origin frames the page: a plain link is left */ }
    if (!outer) return;
    event.preventDefault();
    const made = outer.createElement("a");
    made.href = anchor.getAttribute("href") ? anchor.href : new URL(anchor.dataset.href, airflow).href;
    if (event.ctrlKey || event.metaKey || event.shiftKey) { made.target = "_blank"; made.rel = "noopener"; }
    outer.body.append(made);
    made.click();
    made.remove();
  };

  document.addEventListener("click", (event) => {
    const anchor = event.target.closest("a[data-href]");
    if (anchor) { open(event, anchor); return; }
    const button = event.target.closest("button[data-act]");
    if (!button || button.disabled || button.getAttribute("aria-disabled") === "true") return;
    ({ preview, cancel, look })[button.dataset.act]?.(button);
  });
  document.addEventListener("focusin", (event) => { last = event.target.matches("button[data-act]") ? signature(event.target) : ""; });
  // An answer of a proxy, or of Airflow itself, would leave the page blank.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (xhr.getResponseHeader("X-Hudi-Ops")) return;
    event.detail.shouldSwap = false;
    said(xhr.status === 401 ? OVER : `The page is not up to date: the server answered with ${xhr.status}.`);
  });
  document.addEventListener("htmx:afterSettle", () => {
    mark();
    if (last && document.activeElement === body && !dialog?.open) sameButton(last)?.focus();
  });
  mark();
})();
