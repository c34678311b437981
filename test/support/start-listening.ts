import { runCli } from "../../src/cli/run.js";

/** Starts `oncebox listen` at a free port, within this process. */
export async function startListen(env: NodeJS.ProcessEnv, ...args: string[]) {
  const stopping = new AbortController();
  const lines: string[] = [];
  let started = () => {};
  const isStarted = new Promise<void>((resolve) => {
    started = resolve;
  });
  const running = runCli(["listen", "--port", "0", ...args], {
    env,
    isInteractive: false,
    out: (line) => {
      lines.push(line);
      started();
    },
    err: (line) => {
      lines.push(line);
      started();
    },
    signal: stopping.signal,
  });
  await isStarted;
  return {
    url: /http:\/\/[\d.:]+/.exec(lines.join("\n"))?.[0] ?? "",
    /** Its reports, one for each request. */
    lines: (): readonly string[] => lines.filter((line) => /^\d\d:\d\d:\d\d |^\{"method"/.test(line)),
    async stop(): Promise<number> {
      stopping.abort();
      return running;
    },
  };
}
