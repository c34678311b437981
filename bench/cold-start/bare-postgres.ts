import pg from "pg";
import { bareWebhook } from "./bare-webhook.js";

const pool = new pg.Pool({ connectionString: process.env.ONCEBOX_DATABASE_URL, max: 4 });

export const handler = bareWebhook((id, payload) =>
  pool.query(
    `insert into ${process.env.BENCH_SCHEMA}.bare (id, payload) values ($1, $2) on conflict do nothing`,
    [id, payload],
  ),
);
