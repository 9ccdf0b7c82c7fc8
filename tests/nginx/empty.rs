//! Nothing: the manifest beside it only pins a source archive.
