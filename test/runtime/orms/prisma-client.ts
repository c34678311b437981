import { PrismaPg } from "@prisma/adapter-pg";
import { type GetPrismaClientConfig, getPrismaClient } from "@prisma/client/runtime/client";

const schema = `generator client {
  provider = "prisma-client"
  engineType = "client"
}
datasource db {
  provider = "postgresql"
  url = "postgresql://unused"
}
model Order {
  id Int @id
  @@map("orders")
}
`;

/** Not among the types of Node 20, though it is there. */
const webAssembly = (globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } })
  .WebAssembly;

/** What `prisma generate` would write, for one model: generating needs a download, the client itself does not. */
const config = {
  generator: {
    name: "client",
    provider: { fromEnvVar: null, value: "prisma-client" },
    output: { value: "", fromEnvVar: null },
    config: { engineType: "client" },
    binaryTargets: [],
    previewFeatures: [],
    sourceFilePath: "",
  },
  relativePath: "",
  clientVersion: "6.19.3",
  engineVersion: "none",
  datasourceNames: ["db"],
  activeProvider: "postgresql",
  inlineDatasources: { db: { url: { fromEnvVar: null, value: "postgresql://unused" } } },
  inlineSchema: schema,
  inlineSchemaHash: "",
  copyEngine: true,
  dirname: "",
  runtimeDataModel: {
    models: { Order: { fields: [{ name: "id", kind: "scalar", type: "Int" }], dbName: "orders" } },
    enums: {},
    types: {},
  },
  engineWasm: undefined,
  compilerWasm: {
    getRuntime: () => import("@prisma/client/runtime/query_compiler_bg.postgresql.mjs" as string),
    async getQueryCompilerWasmModule() {
      const { wasm } = (await import(
        "@prisma/client/runtime/query_compiler_bg.postgresql.wasm-base64.mjs" as string
      )) as { wasm: string };
      return new webAssembly.Module(Buffer.from(wasm, "base64"));
    },
  },
} as unknown as GetPrismaClientConfig;

export interface OrderClient {
  readonly order: {
    create(query: { data: { id: number } }): Promise<unknown>;
    count(): Promise<number>;
  };
  $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown>;
}

export interface PrismaDatabase extends OrderClient {
  $transaction<T>(work: (tx: OrderClient) => Promise<T>): Promise<T>;
  $disconnect(): Promise<void>;
}

/** Prisma's real client and query compiler on PostgreSQL through its driver adapter. */
export function openPrisma(url: string, schemaName: string): PrismaDatabase {
  const Client = getPrismaClient(config) as unknown as new (options: object) => PrismaDatabase;
  return new Client({ adapter: new PrismaPg({ connectionString: url }, { schema: schemaName }) });
}
