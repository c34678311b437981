import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
};

export interface FileServer {
  /** Where the folder begins, with a slash at its end. */
  readonly url: string;
  stop(): Promise<void>;
}

/** Serves a folder under a base path, as a plain file server does: no rewriting, no list of files. */
export async function serveFiles(folder: string, base: string): Promise<FileServer> {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://127.0.0.1");
    const path = normalize(decodeURIComponent(pathname));
    const name = path.startsWith(base) ? path.slice(base.length) : "..";
    const file = name === "" || name.endsWith("/") ? `${name}index.html` : name;
    const bytes = await readFile(join(folder, file)).catch(() => undefined);
    const found = bytes !== undefined && !file.startsWith("..");
    response.writeHead(found ? 200 : 404, { "content-type": types[extname(file)] ?? "text/plain" });
    response.end(found ? bytes : "There is no such file.");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${base}`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
