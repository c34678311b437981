/** Another queue, at the settings that its documentation gives for speed. */
export interface Peer {
  /** Adds so many jobs of 1 KB. */
  fill(count: number): Promise<void>;
  /** Handles all of them with a handler that does nothing, and returns the rate. */
  drain(count: number): Promise<number>;
  close(): Promise<void>;
}

/** In a schema of its own, or in a file of its own. */
export type OpenPeer = (database: string, schema: string) => Promise<Peer>;

export type PeerName = "pg-boss" | "graphile-worker" | "plainjob";

/** Counts jobs as they are handled. The clock starts now and stops with the last job; its acknowledgement is not waited for. */
export function jobCounter(total: number) {
  const startedAt = performance.now();
  let handled = 0;
  let finish: (rate: number) => void = () => {};
  const rate = new Promise<number>((resolve) => {
    finish = resolve;
  });
  return {
    rate,
    count(jobs: number): void {
      handled += jobs;
      if (handled >= total) finish((handled / (performance.now() - startedAt)) * 1000);
    },
  };
}
