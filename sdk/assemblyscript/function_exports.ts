/** The functions that the router calls. The file with your function needs `export * from "./exports"`. */
export {
  switchpath_function,
  switchpath_describe,
  switchpath_block,
  switchpath_state,
  switchpath_start,
  switchpath_process,
} from "./switchpath";
