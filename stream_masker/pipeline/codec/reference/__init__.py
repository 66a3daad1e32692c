"""The reference codec: the literal implementation, against which the scanner is tested.

``codec`` reads a record in these steps: ``json_decoder`` decodes it; ``matching`` finds the values of all paths in one
pass along the trie that the scanner uses too; ``json_decoder`` reads the noise key and the alpha; ``extraction``
reads codes and numbers, and puts placeholders in their place; the field policy (``pipeline.fields``) is applied; the
record is split at its placeholders. When the batch is masked, it is joined with the text of each placeholder.
"""
