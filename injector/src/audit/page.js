
"use strict";
// Without this script the page shows every row and no filter. The page is XML too: no less-than sign here, and no ampersand.
(() => {
  const form = document.getElementById("filter");
  const namespace = document.getElementById("of-namespace");
  const state = document.getElementById("of-state");
  const shown = document.getElementById("shown");
  const rows = Array.from(document.querySelectorAll("#rows tbody tr"));
  const fits = (row) => {
    if (namespace.value !== "" ? row.dataset.namespace !== namespace.value : false) return false;
    if (state.value === "problem") return row.dataset.problem !== undefined;
    return state.value === "" || row.dataset.state === state.value;
  };
  const apply = () => {
    const kept = rows.filter((row) => !(row.hidden = !fits(row)));
    shown.value = `${kept.length} of ${rows.length} shown`;
  };
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
