// Figures and moments in words: the same units and lengths as on the terminal.

const short = (v) => { const a = Math.abs(v); return a >= 9.995e5 ? (v / 1e6).toFixed(1) + " M" : a >= 9995 ? (v / 1e3).toFixed(1) + " k" : a >= 99.5 || a === 0 ? v.toFixed(0) : a >= 9.95 ? v.toFixed(1) : a >= 0.01 ? v.toFixed(2) : v.toPrecision(1); };

function bytes(value) {
  const steps = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
  return short(value / 1024 ** step) + " " + steps[step];
}

export function figure(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  switch (unit) {
    case "share": return (value > 0 && value < 0.0095 ? (value * 100).toFixed(1) : (value * 100).toFixed(0)) + " %";
    case "per-second": return short(value) + "/s";
    case "bytes-per-second": return bytes(value) + "/s";
    case "bytes": return bytes(value);
    case "milliseconds": return value >= 1e4 ? short(value / 1e3) + " s" : short(value) + " ms";
    case "seconds": return short(value) + " s";
    default: return short(value);
  }
}

export const share = (value) => figure(value, "share");

// How much of a ceiling is used. That 100 % of one is used makes no bottleneck yet, so it is told in words.
export const ofCeiling = (value) => value >= 0.995 ? "fully used" : share(value);

export function lasted(s) {
  return s < 90 ? Math.round(s) + " s" : s < 5400 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
}

// What the calendar of now calls a moment of the history.
export function clock(history, at_s) {
  const epoch = history.now_epoch_s - history.now_s + at_s;
  return new Date(epoch * 1000).toLocaleTimeString([], { hourCycle: "h23" });
}

// The same in hours and minutes, with seconds only where the stretch is short.
export function moment(history, at_s) {
  const text = clock(history, at_s);
  return history.to_s - history.from_s < 300 ? text : text.replace(/:\d\d$/, "");
}

export const plural = (n, one, many) => n + " " + (n === 1 ? one : many);
