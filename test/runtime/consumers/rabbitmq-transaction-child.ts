/**
 * Runs the example on one delivery of the queue and kills itself at one of the points around its statements, its commit and its
 * acknowledgement. Prints how many points it passed when it is not killed.
 */
import { type Channel, connect } from "amqplib";
import type { Database } from "../../../src/index.js";
import { openPostgres } from "../../../src/sql/postgres/index.js";
import { openSqlite } from "../../../src/sql/sqlite/index.js";
import { killPoints, mined } from "../../support/kill-points.js";

const [broker, url, killAt] = process.argv.slice(2) as [string, string, string];
const points = killPoints(Number(killAt));
const db = mined(url.startsWith("postgres:") ? openPostgres({ url }) : openSqlite({ file: url }), points);
const connection = await connect(broker);
const channel = await connection.createChannel();
const ack = channel.ack.bind(channel);
channel.ack = (delivery) => {
  points.point(); // committed, and the broker does not know yet
  ack(delivery);
  void end();
};
async function end(): Promise<void> {
  await channel.close(); // after what was acknowledged; the connection alone would close before it is sent
  await connection.close();
  await db.close();
  console.log(points.passed());
}
// a name in parts: the example is bundled with this file, and type-checked with its own settings
const kind: string = "transaction";
const example = (await import(`../../../examples/consumers/rabbitmq-${kind}.ts`)) as {
  consumeOrders(channel: Channel, db: Database): Promise<void>;
};
await example.consumeOrders(channel, db);
