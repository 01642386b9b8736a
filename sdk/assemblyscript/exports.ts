/** The functions that the router calls. The file with your scheme needs `export * from "./exports"`. */
export {
  switchpath_version,
  switchpath_describe,
  switchpath_block,
  switchpath_start,
  switchpath_arrive,
  switchpath_ready,
  switchpath_recount,
} from "./switchpath";
