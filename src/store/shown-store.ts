// A --store setting as logs and errors may have it.

/** Without the password, however that is written, and without the options behind a `?`, which can carry one too. */
export function shownStore(url: string): string {
  if (url.startsWith('sqlite:')) return url
  const [, scheme = '', rest = url] = /^([a-z+]+:(?:\/\/)?)(.*)$/is.exec(url) ?? []
  const [address = '', options = ''] = rest.split(/\?(.*)/s)
  // A password may have a `?` in it that should have been escaped: then nothing tells what it is.
  if (options.includes('@')) return `${scheme}…`
  if (address.includes('@')) return scheme + address.slice(address.lastIndexOf('@') + 1)
  // A password may stand where the host is, the @ behind it forgotten.
  if (scheme.endsWith('//') && !isOfHosts(address)) return `${scheme}…`
  return scheme === '' || scheme.endsWith('//') ? scheme + address : `${scheme}…`
}

/** Names with or without a port, and a path. */
function isOfHosts(address: string): boolean {
  const [hosts = ''] = address.split('/')
  return hosts.split(',').every((host) => /^(?:[^:]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i.test(host))
}
