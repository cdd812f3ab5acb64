// Numbers as the reasons of the fleet write them.

export function seconds(ms: number): string {
  return `${Number((ms / 1000).toFixed(1))} s`
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
