import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { StartedServer } from "../start-postgres.js";
import { dockerRuns } from "../start-sqlserver.js";
import { startBinary } from "./start-binary.js";

/** A server that tests use where it can be had. */
export interface ServerRecipe {
  /** The environment variable with the URL of one that runs. */
  readonly variable: string;
  /** Programs that start one: the first that is found. */
  readonly programs: readonly string[];
  /** Arguments and environment of the program, for a port and a folder of its own. */
  readonly run: (port: number, folder: string) => Promise<RunSettings> | RunSettings;
  /** For Docker. */
  readonly image?: { readonly name: string; readonly port: number; readonly command?: readonly string[] };
  readonly url: (address: string) => string;
}

interface RunSettings {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A command that ends what the program leaves behind, with the same environment. */
  readonly afterwards?: readonly [program: string, ...args: string[]];
}

/** How to start the server, or undefined where it cannot be had: then its suites are skipped by name. */
export async function findServer(recipe: ServerRecipe): Promise<(() => Promise<StartedServer>) | undefined> {
  const given = process.env[recipe.variable];
  if (given) return async () => ({ url: given, stop: async () => {} });
  const program = recipe.programs.map(onPath).find((path) => path !== undefined);
  if (program !== undefined) return () => startBinary(program, recipe);
  const { image } = recipe;
  return image !== undefined && (await dockerRuns()) ? () => startContainer(image, recipe.url) : undefined;
}

/** For the title of a suite. */
export const needs = ({ variable, programs, image }: ServerRecipe): string => {
  const onThePath = programs.length === 0 ? [] : [`${programs.join(" or ")} on the PATH`];
  return `needs ${[variable, ...onThePath, ...(image ? ["Docker"] : [])].join(", or ")}`;
};

/** Debian's own folder of RabbitMQ first: its program on the PATH takes no environment. Its servers are not on every user's PATH. */
function onPath(program: string): string | undefined {
  const folders = ["/usr/lib/rabbitmq/bin", ...(process.env.PATH ?? "").split(delimiter), "/usr/sbin"];
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return existsSync(file);
  } catch {
    return false;
  }
}

async function startContainer(
  { name, port, command = [] }: NonNullable<ServerRecipe["image"]>,
  url: ServerRecipe["url"],
): Promise<StartedServer> {
  const { GenericContainer } = await import("testcontainers");
  const container = await new GenericContainer(name)
    .withExposedPorts(port)
    .withCommand([...command])
    .start();
  return {
    url: url(`${container.getHost()}:${container.getMappedPort(port)}`),
    async stop() {
      await container.stop();
    },
  };
}
