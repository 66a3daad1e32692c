"""The style sheet of the live page: one column on a phone, two on a wide screen, light and dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #fff; --edge: #d0d7de; --heat-to: #0b5cad;
  --c0: #0b5cad; --c1: #b3530b; --c2: #1a7f37; --c3: #8250df; --c4: #a40e26; --c5: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117; --edge: #3d444d;
  --heat-to: #1f6feb; --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; --c4: #ff7b72; --c5: #9198a1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
a { color: var(--c0); } :focus-visible { outline: 3px solid var(--c1); outline-offset: 2px; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 1rem; background: var(--paper); padding: .5rem; }
nav ul, .legend { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0; margin: .5rem 0; }
nav a { display: inline-block; padding: .25rem 0; }
.soft { color: var(--soft); margin: .25rem 0; } .warn { border-left: 4px solid var(--c4); padding-left: .75rem; }
.verdict { display: grid; gap: .5rem; list-style: none; padding: 0; margin: .5rem 0; }
.verdict > li { border-left: .5rem solid var(--c5); padding: .25rem .75rem; } .verdict strong { font-size: 1.15rem; }
.verdict ul { margin: 0; padding-left: 1.25rem; } .verdict .good { border-color: var(--c2); }
.verdict .bad { border-color: var(--c4); }
main { display: grid; gap: 1rem; grid-template-columns: minmax(0, 1fr); }
section { border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.cards caption { color: var(--ink); font-weight: bold; } .cards th { font-weight: normal; }
.heat th, .heat td { padding: .4rem .6rem; }
.heat td[style] { background: color-mix(in srgb, var(--heat-to) calc(var(--heat) * .7), transparent);
  text-align: right; }
.bar { display: inline-block; height: .6rem; width: calc(var(--share) * 7rem); min-width: 1px; margin-right: .5rem; }
.risk { background: var(--c4); } .rmse { background: var(--c0); }
.chart { display: block; width: 100%; max-width: 36rem; } .chart text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--edge); } polyline { fill: none; stroke-width: 2; } .legend svg { width: 1.5rem; height: .5rem;
  margin-right: .4rem; } .legend line { stroke-width: 3; } .dashed { stroke-dasharray: 5 3; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); } circle { fill: var(--paper); stroke-width: 2; }
pre { margin: 0; font-size: .85rem; } summary { cursor: pointer; padding: .25rem 0; }
@media (min-width: 60rem) { main { grid-template-columns: repeat(2, minmax(0, 1fr)); } .wide { grid-column: 1 / -1; } }
"""
