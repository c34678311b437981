import type * as z from "zod/mini";
import type { OperatedStores } from "../operators/with-operators.js";
import type { Answer } from "./responses.js";

/** What a route knows of the request beside its fields. */
export interface AdminCall {
  /** Who asks: the token's name, and the person if the request names one. */
  readonly by: string;
  readonly signal: AbortSignal;
}

interface RouteParts<Fields> {
  /** `{name}` stands for one part of the path, and at its end for the rest. */
  readonly path: string;
  readonly method: "GET" | "POST";
  /** Of the path's names and the query's; of a POST, the body's instead of the query's. */
  readonly request: z.ZodMiniType<Fields>;
}

/** On the queues of one database: the app's, or that of the tenant that `?tenant=` names. */
export interface StoreRoute<Fields = unknown> extends RouteParts<Fields> {
  readonly on: "store";
  run(stores: OperatedStores, fields: Fields, call: AdminCall): Promise<Answer>;
}

/** On all that the app has. */
export interface AppRoute<Fields = unknown> extends RouteParts<Fields> {
  readonly on: "app";
  run(fields: Fields, call: AdminCall): Promise<Answer>;
}

export type AdminRoute = StoreRoute | AppRoute;

/** Checks that `run` takes what the schema accepts. */
export const storeRoute = <Fields>(route: Omit<StoreRoute<Fields>, "on">): StoreRoute =>
  ({ on: "store", ...route }) as StoreRoute;
export const appRoute = <Fields>(route: Omit<AppRoute<Fields>, "on">): AppRoute =>
  ({ on: "app", ...route }) as AppRoute;
