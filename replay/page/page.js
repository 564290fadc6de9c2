'use strict';
// The page holds what each step changed. Read once, that gives every row at every step: forward by what it is, back by what
// it was.
(function () {
  const $ = (id) => document.getElementById(id);
  const steps = [], rows = [], byNumber = {}, lanes = {};
  const states = ['succeeded', 'failed', 'cancelled', 'running', 'retrying', 'dispatching', 'planned'];
  const sum = states.map(() => 0);
  const stale = new Set();
  let here = -1, only = null, marked = new Set();

  function read(el) {
    const s = {
      el, tx: el.closest('.tx'), keys: el.dataset.keys.split(' '), x: el.dataset.x, t: el.dataset.t, changes: [],
      from: +el.id.slice(1), to: +(el.dataset.to || el.id.slice(1)),
      shift: (el.dataset.shift || '').split(' ').map(Number),
    };
    for (const table of el.querySelectorAll('table')) {
      const n = table.dataset.r;
      let row = byNumber[n];
      if (!row) {
        row = byNumber[n] = { name: table.caption.firstChild.data, table: table.dataset.table, of: table.dataset.of, columns: new Map(), there: false };
        rows.push(row);
      }
      const c = { row, was: new Map(), is: new Map(), wasThere: row.there, isThere: table.dataset.op !== 'gone' };
      for (const tr of table.tBodies.length ? table.tBodies[0].rows : []) {
        const name = tr.cells[0].textContent, is = tr.cells[2];
        c.was.set(name, row.columns.get(name));
        const value = is.className === 'z' ? undefined : is.textContent;
        c.is.set(name, value);
        row.columns.set(name, value);
      }
      row.there = c.isThere;
      s.changes.push(c);
    }
    steps.push(s);
  }

  function apply(s, forward) {
    for (const c of forward ? s.changes : s.changes.slice().reverse()) {
      for (const [name, value] of forward ? c.is : c.was) c.row.columns.set(name, value);
      c.row.there = forward ? c.isThere : c.wasThere;
      stale.add(c.row);
    }
    s.shift.forEach((n, i) => { sum[i] += forward ? n : -n; });
  }

  function make(tag, text, cls) {
    const el = document.createElement(tag);
    if (text !== undefined) el.textContent = text;
    if (cls) el.className = cls;
    return el;
  }

  // The panel: one row of the views, closed but for what the step has changed.
  const panel = $('state'), head = make('h3'), total = make('p', '', 'sum');
  head.id = 'stopped';
  function build() {
    panel.append(head, total);
    const groups = [['runs', 'run'], ['jobs', 'job'], ['units', 'units'], ['outbox', 'registers'], ['', 'rows that other runs write, too']];
    const named = groups.map((g) => g[0]);
    for (const [table, title] of groups) {
      const of = rows.filter((r) => (table ? r.table === table : !named.includes(r.table)));
      if (!of.length) continue;
      const group = make('section');
      group.append(make('h4', title));
      for (const r of of) {
        r.el = make('details');
        const line = make('summary');
        r.chip = make('span');
        line.append(make('span', r.name), r.chip);
        r.body = make('div');
        r.el.append(line, r.body);
        r.el.addEventListener('toggle', () => { if (r.el.open) fill(r); });
        line.addEventListener('click', () => { r.asked = !r.el.open; });
        group.append(r.el);
      }
      panel.append(group);
    }
  }

  function fill(r) {
    const changed = new Map();
    for (const c of steps[here].changes) if (c.row === r) for (const [k, v] of c.was) changed.set(k, v);
    const table = make('table');
    for (const [name, value] of r.columns) {
      if (value === undefined && !changed.has(name)) continue;
      const tr = table.insertRow();
      const th = make('th', name);
      th.scope = 'row';
      tr.append(th);
      const td = tr.insertCell();
      if (changed.has(name)) {
        tr.className = 'changed';
        if (changed.get(name) !== undefined) td.append(make('del', changed.get(name)), ' ');
        td.append(make('b', value === undefined ? 'cleared' : value));
      } else td.textContent = value;
    }
    r.body.replaceChildren(table);
  }

  function show(all) {
    const s = steps[here];
    const touched = new Set(s.changes.map((c) => c.row));
    let moved = all;
    for (const r of all ? rows : new Set([...stale, ...marked, ...touched])) {
      const fresh = touched.has(r), status = r.columns.get('status');
      const hidden = !r.there || !!only && !only.includes(r.of) && r.of !== 'run';
      moved = moved || hidden !== r.el.hidden;
      r.el.hidden = hidden;
      r.chip.textContent = status || '';
      r.chip.className = status ? 'chip ' + status : '';
      r.el.classList.toggle('new', fresh);
      r.el.open = r.asked === undefined ? fresh && touched.size < 4 : r.asked;
      if (r.el.open) fill(r);
    }
    stale.clear();
    marked = touched;
    if (moved) for (const g of panel.querySelectorAll('section')) g.hidden = !g.querySelector('details:not([hidden])');
    const at = s.to > s.from ? s.from + ' to ' + s.to : '' + s.from;
    head.textContent = 'Stopped behind ' + s.to + ', ' + s.t;
    total.textContent = 'all units: ' + (states.map((n, i) => (sum[i] ? sum[i] + ' ' + n : '')).filter(Boolean).join(', ') || 'none yet');
    $('where').textContent = at + ', ' + s.t;
    $('slide').value = here;
    const line = $('cursor');
    line.setAttribute('transform', 'translate(' + s.x + ' 0)');
    line.setAttribute('visibility', 'visible');
    for (const key in lanes) lanes[key].classList.toggle('on', s.keys.includes(key));
  }

  function go(n, scroll, quiet, all) {
    n = Math.max(0, Math.min(steps.length - 1, n));
    if (here >= 0) {
      steps[here].el.classList.remove('here');
      steps[here].el.removeAttribute('aria-current');
    }
    while (here < n) apply(steps[++here], true);
    while (here > n) apply(steps[here--], false);
    const el = steps[here].el;
    el.classList.add('here');
    el.setAttribute('aria-current', 'step');
    show(all);
    if (scroll) el.scrollIntoView({ block: 'nearest' });
    if (!quiet) note();
  }

  // The address is where the reader stands. A browser takes few of these in a row.
  let noted;
  function note() {
    clearTimeout(noted);
    noted = setTimeout(() => {
      try { history.replaceState(null, '', '#' + steps[here].el.id); } catch (e) { /* some viewers forbid it */ }
    }, 200);
  }

  const visible = (s) => !s.el.hidden;
  function move(by) {
    let n = here + by;
    while (n >= 0 && n < steps.length && !visible(steps[n])) n += by;
    if (n >= 0 && n < steps.length) go(n, true);
  }

  function filter(value) {
    only = value ? value.split(' ') : null;
    $('only').value = value;
    const shown = new Set();
    for (const s of steps) {
      s.el.hidden = !!only && !s.keys.some((k) => only.includes(k) || k === 'run' && value[0] === 'u');
      if (!s.el.hidden) shown.add(s.tx);
    }
    for (const tx of document.querySelectorAll('.tx')) tx.hidden = !shown.has(tx);
    if (!visible(steps[here])) {
      let n = here;
      while (n >= 0 && !visible(steps[n])) n--;
      go(n >= 0 ? n : steps.findIndex(visible), false, false, true);
    } else show(true);
  }

  // A position may be folded: then it is in the last step that begins at or before it.
  function find(hash) {
    const p = /^#p(\d+)$/.exec(hash);
    if (!p) return -1;
    let n = -1;
    while (n + 1 < steps.length && steps[n + 1].from <= +p[1]) n++;
    return n;
  }

  document.querySelectorAll('.step').forEach(read);
  if (!steps.length) return;
  for (const r of rows) { r.columns.clear(); r.there = false; }
  document.querySelectorAll('.lane[data-key]').forEach((g) => { if (g.dataset.key) lanes[g.dataset.key] = g; });
  build();
  document.body.classList.add('scripting');
  for (const el of document.querySelectorAll('.scripted')) el.hidden = false;
  $('bar').hidden = panel.hidden = false;
  $('slide').max = steps.length - 1;
  const asked = find(location.hash);
  go(asked >= 0 ? asked : steps.length - 1, asked >= 0, asked < 0, true);

  $('bar').addEventListener('submit', (e) => e.preventDefault());
  $('only').addEventListener('change', (e) => filter(e.target.value));
  $('slide').addEventListener('input', (e) => go(+e.target.value, true));
  $('first').addEventListener('click', () => go(steps.findIndex(visible), true));
  $('end').addEventListener('click', () => { let n = steps.length - 1; while (!visible(steps[n])) n--; go(n, true); });
  $('back').addEventListener('click', () => move(-1));
  $('on').addEventListener('click', () => move(1));
  document.addEventListener('keydown', (e) => {
    if (e.altKey || e.ctrlKey || e.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const by = { ArrowLeft: -1, '[': -1, ArrowRight: 1, ']': 1 }[e.key];
    if (by) { e.preventDefault(); move(by); }
    if (e.key === 'Escape' && only) filter('');
  });
  document.addEventListener('click', (e) => {
    const name = e.target.closest('.lane .name');
    if (name) {
      e.preventDefault();
      const key = name.closest('.lane').dataset.key;
      if (key) filter($('only').value === key || key === 'run' && $('only').value === 'run job' ? '' : key === 'run' ? 'run job' : key);
      return;
    }
    const link = e.target.closest('a[href^="#p"]');
    if (link) {
      e.preventDefault();
      const n = find(link.getAttribute('href'));
      if (n < 0) return;
      if (!visible(steps[n])) filter('');
      go(n, true);
      return;
    }
    if (e.target.closest('summary, select, button, input, a')) return;
    const el = e.target.closest('.step');
    if (el && !String(getSelection())) go(steps.findIndex((s) => s.el === el));
  });
  addEventListener('hashchange', () => { const n = find(location.hash); if (n >= 0) go(n, true); });
  addEventListener('beforeprint', () => { for (const d of document.querySelectorAll('.fold details')) d.open = true; });
})();
