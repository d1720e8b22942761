//! Single steps of the worker that are easy to get wrong.
