/** The tables of the inventory service. Nothing in them prevents a second reservation for the same order. */
import { statement } from "oncebox";
import type { openSqlite } from "oncebox/sqlite";

export const stockAtFirst = 100;

const createTables = [
  statement("create stock", "create table if not exists stock (item text primary key, quantity integer)"),
  statement("fill stock", `insert or ignore into stock values ('chair', ${stockAtFirst})`),
  statement("create reservations", "create table if not exists reservations (order_id text)"),
  statement("create shipments", "create table if not exists shipments (order_id text)"),
];

export async function createInventoryTables({ driver }: ReturnType<typeof openSqlite>): Promise<void> {
  for (const one of createTables) await driver.query(one, {});
}

export const takeStock = statement(
  "take stock",
  "update stock set quantity = quantity - :quantity where item = 'chair' returning quantity",
);
export const insertReservation = statement("reserve", "insert into reservations values (:orderId)");
export const insertShipment = statement("ship", "insert into shipments values (:orderId)");
export const countInventory = statement(
  "count inventory",
  `select (select quantity from stock) as left, (select count(*) from shipments) as shipments,
   count(*) as reservations, count(distinct order_id) as orders from reservations`,
);
