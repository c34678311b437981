import { type GetPrismaClientConfig, getPrismaClient } from "@prisma/client/runtime/client";

export type PrismaProvider = "postgresql" | "sqlite" | "sqlserver";

const schemaOf = (provider: PrismaProvider) => `generator client {
  provider = "prisma-client"
  engineType = "client"
}
datasource db {
  provider = "${provider}"
  url = "unused"
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
const configOf = (provider: PrismaProvider) => ({
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
  activeProvider: provider,
  inlineDatasources: { db: { url: { fromEnvVar: null, value: "unused" } } },
  inlineSchema: schemaOf(provider),
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
    getRuntime: () => import(`@prisma/client/runtime/query_compiler_bg.${provider}.mjs`),
    async getQueryCompilerWasmModule() {
      const { wasm } = (await import(
        `@prisma/client/runtime/query_compiler_bg.${provider}.wasm-base64.mjs`
      )) as { wasm: string };
      return new webAssembly.Module(Buffer.from(wasm, "base64"));
    },
  },
});

export interface OrderClient {
  readonly order: {
    create(query: { data: { id: number } }): Promise<unknown>;
    count(): Promise<number>;
  };
  $queryRawUnsafe(text: string, ...values: unknown[]): Promise<unknown>;
}

export interface PrismaDatabase extends OrderClient {
  $transaction<T>(
    work: (tx: OrderClient) => Promise<T>,
    limits?: { readonly maxWait: number; readonly timeout: number },
  ): Promise<T>;
  $disconnect(): Promise<void>;
}

/** Prisma's real client and query compiler on one of its driver adapters. */
export function openPrisma(provider: PrismaProvider, adapter: object): PrismaDatabase {
  const config = configOf(provider) as unknown as GetPrismaClientConfig;
  const Client = getPrismaClient(config) as unknown as new (options: object) => PrismaDatabase;
  return new Client({ adapter });
}
