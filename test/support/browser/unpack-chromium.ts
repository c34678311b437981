import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { access, constants, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));

export interface UnpackedChromium {
  readonly executable: string;
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Unpacks the Chromium of the npm package `@sparticuz/chromium` once per version. The package unpacks its libraries only where
 * it believes to be in Lambda, and always to the folder for temporary files: it gets a folder of its own, in a process of its
 * own, and the folder is moved to its place when it is whole. So test runs beside each other, or killed ones, do no harm.
 */
export async function unpackChromium(): Promise<UnpackedChromium> {
  const { version } = JSON.parse(
    await readFile(join(modules, "@sparticuz/chromium/package.json"), "utf8"),
  ) as { version: string };
  const folder = join(await cacheFolder(), `oncebox-chromium-${version}-${userInfo().uid}`);
  if (!existsSync(folder)) await unpackTo(folder);
  return {
    executable: join(folder, "chromium"),
    env: {
      LD_LIBRARY_PATH: join(folder, "al2023/lib"),
      FONTCONFIG_FILE: join(folder, "fonts.conf"),
    },
  };
}

/** Kept with the installed packages, unless another user installed them. */
async function cacheFolder(): Promise<string> {
  const folder = join(modules, ".cache");
  try {
    await mkdir(folder, { recursive: true });
    await access(folder, constants.W_OK);
    return folder;
  } catch {
    return tmpdir();
  }
}

async function unpackTo(folder: string): Promise<void> {
  const unfinished = await mkdtemp(`${folder}-`);
  const script = 'await (await import("@sparticuz/chromium")).default.executablePath()';
  await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    cwd: modules,
    env: { ...process.env, TMPDIR: unfinished, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs20.x" },
    timeout: 60_000,
  });
  // the package's own file names folders of Lambda
  await writeFile(
    join(unfinished, "fonts.conf"),
    `<?xml version="1.0"?><fontconfig><dir>${join(folder, "fonts")}</dir><dir>/usr/share/fonts</dir>` +
      `<cachedir>${join(folder, "fonts-cache")}</cachedir></fontconfig>\n`,
  );
  try {
    await rename(unfinished, folder);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    if (!existsSync(folder)) throw error; // otherwise another test run was faster
  }
}
