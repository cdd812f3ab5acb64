// A --store setting as logs and errors may have it.

/** Without the password, however that is written, and without the options behind a `?`, which can carry one too. */
export function shownStore(url: string): string {
  return url.startsWith('sqlite:') ? url : url.replace(/\?.*$/s, '').replace(/\/\/.*@/s, '//')
}
