import type { QueueContext, TestQueue } from "./support.js";

/** A table of the user's own beside the queue. */
export function businessTable({ database, queue }: Pick<QueueContext, "database" | "queue">) {
  const business = ({ names }: TestQueue) => names.object("Orders");
  return {
    business,
    async withOrders(): Promise<TestQueue> {
      const made = await queue();
      await database().raw(`create table ${business(made)} (id int not null)`);
      return made;
    },
    orders: async (made: TestQueue) => (await database().raw(`select id from ${business(made)}`)).length,
  };
}
