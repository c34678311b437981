import { defineApp } from "oncebox";

const receipt = async (line: string) => ({ topic: "receipt.send", data: { line } });

export default defineApp({
  handlers: {
    "order.placed": { handle: () => ["a", "b"].map(receipt) },
  },
});
