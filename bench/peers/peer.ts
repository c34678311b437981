/** Another queue on PostgreSQL, at the settings that its documentation gives for speed. */
export interface Peer {
  /** Adds so many jobs of 1 KB. */
  fill(count: number): Promise<void>;
  /** Handles all of them with a handler that does nothing, and answers the rate. */
  drain(count: number): Promise<number>;
  close(): Promise<void>;
}

/** In a schema of its own. */
export type OpenPeer = (url: string, schema: string) => Promise<Peer>;

export const peerNames = ["pg-boss", "graphile-worker"] as const;
export type PeerName = (typeof peerNames)[number];

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
