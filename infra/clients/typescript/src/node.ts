// The saved state of a client in Node: a folder.

import { mkdir, open, rename, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";

import { StateError, type StateStore } from "./saved_state.js";

const OTHERS_WRITE = 0o022;
const OTHERS = 0o077;

/**
 * Persists the client state in a folder, in private files. Each client and each process needs a
 * separate folder.
 */
export class FileStateStore implements StateStore {
  readonly name = hostname();
  /** The versions of the files that this object has read or written. */
  private readonly stamps = new Map<string, string | null>();

  constructor(private readonly folder: string) {}

  async read(name: string): Promise<Uint8Array | null> {
    this.stamps.set(name, await stampOf(this.path(name)));
    const file = await open(this.path(name), "r").catch(nullIfMissing);
    if (!file) return null;
    try {
      const { mode } = await file.stat(), others = name.endsWith(".key") ? OTHERS : OTHERS_WRITE;
      if (process.platform !== "win32" && mode & others) {
        throw new StateError(`others can use ${this.path(name)}: run chmod 600 for it`);
      }
      return await file.readFile();
    } finally {
      await file.close();
    }
  }

  async write(name: string, data: Uint8Array): Promise<void> {
    const path = this.path(name), known = this.stamps.get(name);
    if (known !== undefined && known !== (await stampOf(path))) {
      throw new StateError(`another process writes to ${path}: give each client a folder of its own`);
    }
    await mkdir(this.folder, { mode: 0o700, recursive: true });
    const temporary = this.path(`.new-${name}`);
    const file = await open(temporary, "w", 0o600);
    try {
      await file.writeFile(data);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    if (process.platform !== "win32") {
      // The renamed file must survive a power failure.
      const folder = await open(this.folder, "r");
      try {
        await folder.sync();
      } finally {
        await folder.close();
      }
    }
    this.stamps.set(name, await stampOf(path));
  }

  private path(name: string): string {
    return join(this.folder, name);
  }
}

async function stampOf(path: string): Promise<string | null> {
  const file = await stat(path).catch(nullIfMissing);
  return file && `${file.ino} ${file.mtimeMs} ${file.size}`;
}

function nullIfMissing(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT") return null;
  throw error;
}
