-- What an attempt that failed has used: it would be lost if its process died before the step has ended.
ALTER TABLE attempts ADD COLUMN usage BLOB;
