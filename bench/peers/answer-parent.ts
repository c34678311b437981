/** The other end of `startPeerChild`: says that this process is ready, answers every number, and ends at 0. */
export function answerParent(answer: (count: number) => Promise<unknown>, close: () => Promise<void>): void {
  process.on("message", async (count: number) => {
    if (count !== 0) {
      process.send!(await answer(count));
      return;
    }
    await close();
    process.disconnect();
  });
  process.send!("ready");
}
