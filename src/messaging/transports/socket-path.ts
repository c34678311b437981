import { tmpdir } from "node:os";
import { join } from "node:path";
import { decoded } from "../../base/decoded.js";
import { InvalidArgumentError } from "../../errors.js";
import { shownAddress } from "./address.js";

/** What the operating systems can store of a path, in bytes: 108 on Linux, 104 on macOS, each with a NUL at the end. */
const longestPath = { darwin: 103, other: 107 } as const;

/**
 * The path that Node connects to, or listens on, for `unix:///tmp/rf-orders.sock` and `pipe://rf-orders`. A pipe is
 * `\\.\pipe\rf-orders` on Windows. Elsewhere it is a Unix socket in the temporary folder, so one configuration works on
 * both. Processes with different temporary folders (`TMPDIR`) do not meet: they need `unix:`.
 */
export function socketPathOf(url: URL, platform: NodeJS.Platform = process.platform): string {
  const path = url.protocol === "pipe:" ? pipePath(url, platform) : unixPath(url, platform);
  const limit = platform === "darwin" ? longestPath.darwin : longestPath.other;
  const length = Buffer.byteLength(path);
  if (platform === "win32" || length <= limit) return path;
  throw new InvalidArgumentError(
    `The socket path ${path} has ${length} bytes; the operating system takes ${limit}. Choose a shorter one.`,
  );
}

function pipePath(url: URL, platform: NodeJS.Platform): string {
  const { host: name, pathname } = url;
  if (!/^[\w.-]+$/.test(name) || /^\.+$/.test(name) || pathname !== "") {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a pipe. Write pipe://name, with letters, digits, ".", "_" and "-" in the name.`,
    );
  }
  return platform === "win32" ? `\\\\.\\pipe\\${name}` : join(tmpdir(), `${name}.sock`);
}

function unixPath(url: URL, platform: NodeJS.Platform): string {
  if (platform === "win32") {
    throw new InvalidArgumentError(
      `${shownAddress(url)}: Windows has no Unix sockets for Node. Use pipe://name, which works on every system.`,
    );
  }
  const path = decoded(url.pathname);
  if (url.host !== "" || path === undefined || path.length < 2 || path.includes("\0")) {
    throw new InvalidArgumentError(
      `${shownAddress(url)} is not the address of a Unix socket. Write three slashes and an absolute path, as in unix:///tmp/rf-orders.sock.`,
    );
  }
  return path;
}
