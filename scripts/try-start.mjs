// Runs the README's first command, waits until its example webhook is handled and published, and stops it.
import { spawn } from "node:child_process";

const child = spawn("npm", ["start"], {
  env: { ...process.env, PORT: "0" },
  stdio: ["ignore", "pipe", "inherit"],
  detached: process.platform !== "win32", // a process group, so that the signal reaches the child of npm
  shell: process.platform === "win32",
});

let output = "";
let stopping = false;
child.stdout.on("data", (data) => {
  process.stdout.write(data);
  output += data;
  if (!stopping && output.includes("sending the receipt of") && output.includes("sends it again: 200")) {
    stopping = true;
    process.kill(process.platform === "win32" ? child.pid : -child.pid, "SIGINT");
  }
});

child.on("exit", () => {
  const wentWell = stopping && output.includes("Stopping");
  if (!wentWell) console.error("npm start did not finish its example.");
  process.exit(wentWell ? 0 : 1);
});
