"use strict";
(function () {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const plain = { displaylogo: false, responsive: true, displayModeBar: false };
  const zoomable = Object.assign({}, plain, {
    displayModeBar: true, modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  });

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  // Colours in a figure are names of this page's colours. Only keys that hold a colour are looked at: names are not ours.
  function coloured(value, key) {
    if (Array.isArray(value)) return value;
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(function (entry) {
        return [entry[0], coloured(entry[1], entry[0])];
      }));
    }
    return typeof value === "string" && /color$/.test(key) ? css(value) || value : value;
  }

  function axis(own) {
    const common = {
      gridcolor: "grid", linecolor: "line", zerolinecolor: "line", automargin: true, ticks: "",
      showspikes: false, // plotly.js draws them with a broad bright edge
    };
    return coloured(Object.assign(common, own), "");
  }

  function layout(own) {
    const ink = css("ink"), muted = css("muted"), family = getComputedStyle(document.body).fontFamily;
    return Object.assign({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: "zoom",
      margin: { l: 56, r: 12, t: 12, b: 44 },
      hoverlabel: { bgcolor: css("surface"), bordercolor: css("line"), align: "left", font: { color: ink, family: family, size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: ink },
    }, own, {
      font: { family: family, size: 12, color: muted }, xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
    });
  }

  function draw(element) {
    const spec = specs[element.dataset.figure];
    element.style.height = spec.layout.height + "px"; // else a plot made responsive shrinks to the least height
    const data = spec.data.map(function (trace) { return coloured(trace, ""); });
    Plotly.react(element, data, layout(spec.layout), spec.layout.barmode ? zoomable : plain);
  }

  // Plots of a hidden tab have no width yet: they are drawn when the tab is opened.
  function drawVisible() {
    document.querySelectorAll(".plot").forEach(function (element) {
      if (!element.closest("[hidden]")) draw(element);
    });
  }

  const tabs = Array.from(document.querySelectorAll("[data-show]"));
  function show(index) {
    tabs.forEach(function (tab) {
      const chosen = tab.dataset.show === index;
      tab.setAttribute("aria-selected", String(chosen));
      document.getElementById("detail-" + tab.dataset.show).hidden = !chosen;
    });
    document.querySelectorAll("#detail-" + index + " .plot").forEach(draw);
  }
  tabs.forEach(function (tab) { tab.addEventListener("click", function () { show(tab.dataset.show); }); });

  dark.addEventListener("change", drawVisible);
  drawVisible();
})();
