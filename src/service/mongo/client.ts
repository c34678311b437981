import { loadPackage, rethrow } from "../../base/load-package.js";
import { InvalidArgumentError } from "../../errors.js";
import type { KeyDocument, Pipeline } from "./updates.js";

/** The part of a collection that the store uses. */
export interface MongoCollection {
  findOne(filter: object): Promise<object | null>;
  findOneAndUpdate(filter: object, update: object[], options: object): Promise<object | null>;
  aggregate(pipeline: object[]): { toArray(): Promise<object[]> };
  createIndex(keys: Record<string, 1>, options: object): Promise<unknown>;
}

/** The part of a `MongoClient` that the store uses. */
export interface MongoClient {
  db(name?: string): { collection(name: string, options: object): MongoCollection };
}

/** A collection that changes and reads documents of keys. */
export interface KeyCollection {
  /** The document after the change, or null when the filter selects none. */
  change(filter: object, update: Pipeline, upsert?: boolean): Promise<KeyDocument | null>;
  exists(filter: object): Promise<boolean>;
  read<T>(pipeline: Pipeline): Promise<T | undefined>;
}

/**
 * What is written must survive the loss of a server, or two callers could get one lease. So a majority has it before a
 * call returns, whatever the client's own settings are.
 */
const concerns = {
  writeConcern: { w: "majority" },
  readConcern: { level: "majority" },
  readPreference: "primary",
} as const;

export async function openCollection(
  client: MongoClient,
  names: { readonly database?: string | undefined; readonly collection: string },
  createIndex: boolean,
): Promise<KeyCollection> {
  const collection = client.db(names.database).collection(names.collection, concerns);
  // The key itself is the _id, whose index is unique. Creating an index that exists changes nothing.
  if (createIndex) await collection.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
  return {
    async change(filter, update, upsert = false) {
      const options = { upsert, returnDocument: "after" };
      return (await collection.findOneAndUpdate(filter, [...update], options)) as KeyDocument | null;
    },
    exists: async (filter) => (await collection.findOne(filter)) !== null,
    read: async <T>(pipeline: Pipeline) =>
      (await collection.aggregate([...pipeline]).toArray())[0] as T | undefined,
  };
}

export interface OpenMongoClient extends MongoClient {
  close(): Promise<void>;
}

/** Connects at the first call. No error quotes the URL, which may contain a password. */
export async function openMongoClient(url: string, timeoutMs: number): Promise<OpenMongoClient> {
  if (!/^mongodb(\+srv)?:\/\//i.test(url))
    throw new InvalidArgumentError(
      "The MongoDB URL must be mongodb://user:password@host:port/database or mongodb+srv://…",
    );
  const { MongoClient: Client } = await loadMongo();
  return new Client(url, { serverSelectionTimeoutMS: timeoutMs });
}

const loadMongo = (): Promise<Pick<typeof import("mongodb"), "MongoClient">> =>
  loadPackage("mongodb", () => import("mongodb").catch(rethrow), "The MongoDB inbox store");
